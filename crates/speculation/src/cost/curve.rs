//! A cost as a function of the number of nodes.

/// Most points that a curve is drawn through.
pub const CURVE_POINTS_MAX: usize = 16;

/// A cost in milliseconds that never falls with the number of nodes: straight between the points
/// it was drawn through, level before the first, and as steep beyond the last as just before it.
///
/// Few machines have a straight line: up to some nodes a pass costs what reading the weights
/// does, and from there on what the arithmetic does.
#[derive(Debug, Clone, Copy)]
pub struct Curve {
    /// (nodes, milliseconds), by rising nodes.
    points: [(f64, f64); CURVE_POINTS_MAX],
    len: usize,
}

impl Curve {
    /// The line `fixed_ms + per_node_ms * nodes`, both at least 0.
    pub fn line(fixed_ms: f64, per_node_ms: f64) -> Self {
        Self::knee(fixed_ms, per_node_ms, 0)
    }

    /// `fixed_ms` up to `free` nodes, and `per_node_ms` more for each node beyond.
    pub fn knee(fixed_ms: f64, per_node_ms: f64, free: usize) -> Self {
        let mut points = [(0.0, 0.0); CURVE_POINTS_MAX];
        points[0] = (free as f64, fixed_ms);
        points[1] = (free as f64 + 1.0, fixed_ms + per_node_ms);
        Self { points, len: 2 }
    }

    /// The curve through `points` of (nodes, milliseconds), in any order; `None` if there is no
    /// finite positive cost among them.
    ///
    /// Where measured costs fall with the nodes, the greater is believed. Of more than
    /// [`CURVE_POINTS_MAX`] points those in between are thinned evenly.
    pub fn through(points: impl IntoIterator<Item = (usize, f64)>) -> Option<Self> {
        let usable = |&(_, ms): &(usize, f64)| ms > 0.0 && ms.is_finite();
        let mut given: Vec<(usize, f64)> = points.into_iter().filter(usable).collect();
        given.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
        given.dedup_by_key(|point| point.0);
        let last = given.len().checked_sub(1)?;
        let len = given.len().min(CURVE_POINTS_MAX);
        let mut points = [(0.0, 0.0); CURVE_POINTS_MAX];
        let mut floor = 0.0_f64;
        for (index, point) in points[..len].iter_mut().enumerate() {
            let (nodes, ms) = given[index * last / (len - 1).max(1)];
            floor = floor.max(ms);
            *point = (nodes as f64, floor);
        }
        Some(Self { points, len })
    }

    /// The cost of `nodes` nodes.
    pub fn at(&self, nodes: usize) -> f64 {
        let (nodes, points) = (nodes as f64, self.points());
        let above = points.partition_point(|point| point.0 < nodes).min(points.len() - 1);
        let Some(below) = above.checked_sub(1) else {
            return points[0].1;
        };
        let ((from, low), (to, high)) = (points[below], points[above]);
        low + (high - low) * ((nodes - from) / (to - from))
    }

    /// The cost `ms`, which never falls with the nodes either, through the same numbers of nodes.
    pub(super) fn mapped(mut self, ms: impl Fn(usize) -> f64) -> Self {
        self.points[..self.len].iter_mut().for_each(|point| point.1 = ms(point.0 as usize));
        self
    }

    /// The points it was drawn through: (nodes, milliseconds), by rising nodes.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points[..self.len]
    }
}

impl PartialEq for Curve {
    fn eq(&self, other: &Self) -> bool {
        self.points() == other.points()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_is_straight_between_its_points_and_goes_on_beyond_them() {
        let curve = Curve::through([(4, 2.0), (1, 1.0), (8, 6.0)]).unwrap_or(Curve::line(0.0, 0.0));
        let costs: Vec<f64> = [0, 1, 4, 6, 8, 10].iter().map(|&nodes| curve.at(nodes)).collect();
        assert_eq!(costs, [1.0, 1.0, 2.0, 4.0, 6.0, 8.0]);
    }

    #[test]
    fn lines_and_knees_are_exact() {
        assert_eq!([0, 1, 7].map(|nodes| Curve::line(2.0, 0.5).at(nodes)), [2.0, 2.5, 5.5]);
        assert_eq!([0, 4, 5, 7].map(|nodes| Curve::knee(8.0, 1.5, 4).at(nodes)), [8.0, 8.0, 9.5, 12.5]);
    }

    #[test]
    fn one_point_is_a_cost_whatever_the_size_and_none_is_no_curve() {
        let flat = Curve::through([(3, 2.0)]);
        assert_eq!(flat.map(|curve| (curve.at(0), curve.at(99))), Some((2.0, 2.0)));
        assert_eq!(Curve::through([]), None);
        assert_eq!(Curve::through([(1, f64::NAN), (2, 0.0), (3, f64::INFINITY)]), None);
    }

    proptest! {
        #[test]
        fn it_never_falls(points in prop::collection::vec((0_usize..99, 0.1_f64..9.0), 1..40)) {
            let curve = Curve::through(points.iter().copied());
            prop_assert!(curve.is_some());
            if let Some(curve) = curve {
                prop_assert!(curve.points().len() <= CURVE_POINTS_MAX);
                prop_assert!((1..200).all(|nodes| curve.at(nodes) >= curve.at(nodes - 1) - 1e-12));
            }
        }
    }
}
