//! What a metric is.

/// A quantity that services measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    /// Its name in OpenTelemetry, with dots.
    pub name: &'static str,
    /// How its values change.
    pub kind: Kind,
    /// What it counts in.
    pub unit: Unit,
    /// The attributes that its series differ in, with dots where they come from a convention.
    pub labels: &'static [&'static str],
    /// What it says, in a sentence without a full stop.
    pub help: &'static str,
}

/// How the values of a metric change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// It only grows, from 0 when the service starts.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How many values there were up to each of these bounds, and their sum.
    Histogram(&'static [f64]),
}

/// What a metric counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// A share, or a factor.
    Ratio,
    /// Things of this name.
    Things(&'static str),
}

impl Metric {
    /// Its name in Prometheus: that of OpenTelemetry with underscores, its unit, and `total` for counters.
    pub fn prometheus_name(&self) -> String {
        let total = if self.kind == Kind::Counter { "_total" } else { "" };
        match self.unit.suffix() {
            Some(unit) => format!("{}_{unit}{total}", self.stem()),
            None => format!("{}{total}", self.stem()),
        }
    }

    /// Its name in Prometheus without what unit and kind add.
    pub(crate) fn stem(&self) -> String {
        underscored(self.name)
    }
}

impl Kind {
    /// Its name in Prometheus.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

impl Unit {
    /// How Prometheus has it in names of metrics; nothing for things and shares.
    pub const fn suffix(self) -> Option<&'static str> {
        match self {
            Self::Seconds => Some("seconds"),
            Self::Bytes => Some("bytes"),
            Self::Ratio | Self::Things(_) => None,
        }
    }

    /// How OpenTelemetry writes it: a code of UCUM, things in braces.
    pub fn ucum(self) -> String {
        match self {
            Self::Seconds => "s".to_owned(),
            Self::Bytes => "By".to_owned(),
            Self::Ratio => "1".to_owned(),
            Self::Things(thing) => format!("{{{thing}}}"),
        }
    }
}

/// A name with dots as Prometheus has it.
pub(crate) fn underscored(name: &str) -> String {
    name.replace('.', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Metric = Metric { name: "a.time", kind: Kind::Counter, unit: Unit::Seconds, labels: &[], help: "" };

    #[test]
    fn prometheus_has_units_and_kinds_in_names() {
        assert_eq!(ANY.prometheus_name(), "a_time_seconds_total");
        assert_eq!(Metric { kind: Kind::Gauge, ..ANY }.prometheus_name(), "a_time_seconds");
        let things = Metric { kind: Kind::Histogram(&[]), unit: Unit::Things("row"), ..ANY };
        assert_eq!((things.prometheus_name(), things.unit.ucum()), ("a_time".to_owned(), "{row}".to_owned()));
    }
}
