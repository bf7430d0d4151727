//! Logarithm and exponential from the four basic operations, which round alike on all machines; those of the C
//! library do not.

/// ln 2, rounded to 53 bits.
const LN_2: f64 = std::f64::consts::LN_2;

/// Returns the natural logarithm of a positive, normal number.
pub(crate) fn ln(x: f64) -> f64 {
    debug_assert!(x.is_normal() && x > 0.0);
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as i64 - 1023;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 artanh((m - 1) / (m + 1)); the argument is below 0.172, so eleven terms reach 2^-53.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let s2 = s * s;
    let mut sum = 0.0;
    for k in (0..11).rev() {
        sum = sum * s2 + 1.0 / f64::from(2 * k + 1);
    }
    exponent as f64 * LN_2 + 2.0 * s * sum
}

/// Returns e to the power of x, for x from -700 to 700.
pub(crate) fn exp(x: f64) -> f64 {
    debug_assert!(x.abs() <= 700.0);
    let halvings = (x / LN_2).round();
    let r = x - halvings * LN_2;
    let mut sum = 1.0;
    for k in (1..16).rev() {
        sum = 1.0 + sum * r / f64::from(k);
    }
    sum * f64::from_bits(((halvings as i64 + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agree_with_the_library_to_thirteen_digits() {
        for n in 1..2000 {
            let x = f64::from(n) * f64::from(n) / 777.0 + 1e-9;
            assert!((ln(x) - x.ln()).abs() <= 1e-13 * x.ln().abs().max(1.0), "ln {x}");
            let y = f64::from(n) / 3.0 - 333.0;
            assert!((exp(y) / y.exp() - 1.0).abs() < 1e-12, "exp {y}");
        }
        assert_eq!((ln(1.0), exp(0.0)), (0.0, 1.0));
    }
}
