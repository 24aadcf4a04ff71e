//! Who comes when, so that a machine that slows down slows down all alike.

/// The order in which so many `arms` answer the prompt at `index` of `prompts`: it begins with another arm each time, and over
/// all prompts with every part of the arms, however few the prompts are.
pub fn order(arms: usize, index: usize, prompts: usize) -> impl Iterator<Item = usize> {
    let stride = (arms / prompts.max(1)).max(1);
    (0..arms).map(move |arm| (arm + index * stride) % arms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prompt_is_answered_by_all_in_another_order() {
        let orders: Vec<Vec<usize>> = (0..3).map(|index| order(3, index, 20).collect()).collect();
        assert_eq!(orders, [[0, 1, 2], [1, 2, 0], [2, 0, 1]]);
        let firsts: Vec<usize> = (0..4).filter_map(|index| order(12, index, 4).next()).collect();
        assert_eq!(firsts, [0, 3, 6, 9]);
    }
}
