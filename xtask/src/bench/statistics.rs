//! Medians, paired ratios and how sure they are.
//!
//! Apart because it is arithmetic that can be tested. Nothing here assumes a
//! normal distribution: run times have a long tail on one side.

/// Resamplings for the interval of a geometric mean.
const RESAMPLINGS: usize = 4000;
/// Probability that an interval may miss the truth.
const MISS: f64 = 0.05;

/// A median of paired ratios (or differences), with its interval.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub(super) struct Estimate {
    /// The median.
    pub(super) median: f64,
    /// Lower end.
    pub(super) low: f64,
    /// Upper end: the one to hold against a bar.
    pub(super) high: f64,
}

/// The middle value, or the mean of the two middle ones; NaN of nothing.
pub(super) fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    match sorted.len() {
        0 => f64::NAN,
        n => f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]),
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// How many values to leave out at each end of `n` sorted ones so that the rest spans the median
/// with at least 95 %, and with which probability it does (less than 95 % where `n` is too small).
pub(super) fn binomial(n: usize) -> (usize, f64) {
    // P(at most k of n values lie below the median), added up while twice that stays below MISS.
    let mut term = 0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    let (mut tail, mut trim, mut missed) = (term, 0, 2.0 * term);
    for k in 1..n {
        if 2.0 * tail > MISS {
            break;
        }
        (trim, missed) = (k - 1, 2.0 * tail);
        term *= (n - k + 1) as f64 / k as f64;
        tail += term;
    }
    (trim, 1.0 - missed)
}

/// The median of `values` with its binomial interval; `None` of nothing.
pub(super) fn estimate(values: &[f64]) -> Option<Estimate> {
    if values.is_empty() {
        return None;
    }
    let sorted = sorted(values);
    let (trim, _) = binomial(sorted.len());
    Some(Estimate { median: median(&sorted), low: sorted[trim], high: sorted[sorted.len() - 1 - trim] })
}

/// Each value over its partner of the same round.
pub(super) fn ratios(values: &[f64], base: &[f64]) -> Vec<f64> {
    values.iter().zip(base).map(|(v, b)| v / b).collect()
}

/// The geometric mean of the medians of `series`, with a bootstrap interval; `None` of nothing.
///
/// Each resampling draws each kernel's rounds anew: the kernels are the set that is meant,
/// only the rounds are a sample.
pub(super) fn geometric(series: &[Vec<f64>]) -> Option<Estimate> {
    let series: Vec<&Vec<f64>> = series.iter().filter(|s| !s.is_empty()).collect();
    if series.is_empty() {
        return None;
    }
    let mean = |medians: &[f64]| (medians.iter().map(|m| m.ln()).sum::<f64>() / medians.len() as f64).exp();
    let mut random = Random(1);
    let mut means: Vec<f64> = (0..RESAMPLINGS)
        .map(|_| {
            let medians: Vec<f64> = series.iter().map(|s| median(&random.resample(s))).collect();
            mean(&medians)
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let cut = (RESAMPLINGS as f64 * MISS / 2.0) as usize;
    let medians: Vec<f64> = series.iter().map(|s| median(s)).collect();
    Some(Estimate { median: mean(&medians), low: means[cut], high: means[RESAMPLINGS - 1 - cut] })
}

/// `SplitMix64`; the same seed each time, so that a report can be computed again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn resample(&mut self, values: &[f64]) -> Vec<f64> {
        values.iter().map(|_| values[(self.next() % values.len() as u64) as usize]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{binomial, estimate, geometric, median, ratios};

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert!((median(&[4.0, 1.0, 3.0, 2.0]) - 2.5).abs() < 1e-12);
        assert!((median(&[5.0, 1.0, 3.0]) - 3.0).abs() < 1e-12);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn binomial_trims_agree_with_the_tables() {
        // The usual table: the interval runs from the k-th to the k-th last value, k = trim + 1.
        for (n, trim) in [(6, 0), (8, 0), (9, 1), (10, 1), (15, 3), (20, 5), (30, 9)] {
            assert_eq!(binomial(n).0, trim, "{n} values");
            assert!(binomial(n).1 >= 0.95, "{n} values: {}", binomial(n).1);
        }
        assert_eq!(binomial(3).0, 0);
        assert!((binomial(3).1 - 0.75).abs() < 1e-12);
    }

    #[test]
    fn an_estimate_leaves_out_the_ends() {
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        let estimate = estimate(&values).expect("values");
        assert_eq!((estimate.low, estimate.median, estimate.high), (2.0, 5.5, 9.0));
    }

    #[test]
    fn a_geometric_mean_lies_in_its_interval() {
        let series = [vec![1.9, 2.0, 2.1], vec![0.5, 0.49, 0.51], vec![]];
        let mean = geometric(&series).expect("values");
        assert!((mean.median - 1.0).abs() < 1e-12);
        assert!(mean.low < 1.0 && 1.0 < mean.high && mean.high < 1.05, "{mean:?}");
        assert_eq!(geometric(&[]), None);
    }

    #[test]
    fn ratios_are_paired() {
        assert_eq!(ratios(&[2.0, 9.0], &[1.0, 3.0]), [2.0, 3.0]);
    }
}
