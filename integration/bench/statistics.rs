//! Medians and what lies around them.

use serde::Serialize;

/// Where the middle of some values lies, and the middle 80 % of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub low: f64,
    pub median: f64,
    pub high: f64,
}

impl Spread {
    /// # Panics
    /// Without values: there is a value per round, and at least one round.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share| quantile(&values, share);
        Self { low: at(0.1), median: at(0.5), high: at(0.9) }
    }
}

/// The value below which `share` of the `sorted` values lie, between two of them if need be.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    sorted[below] + (sorted[above] - sorted[below]) * place.fract()
}

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![an_even_count_has_its_median_between_two_values, one_value_is_its_own_spread]
}

fn an_even_count_has_its_median_between_two_values() {
    assert_eq!(Spread::of(vec![4.0, 1.0, 3.0, 2.0]).median, 2.5);
}

fn one_value_is_its_own_spread() {
    assert_eq!(Spread::of(vec![7.0]), Spread { low: 7.0, median: 7.0, high: 7.0 });
}
