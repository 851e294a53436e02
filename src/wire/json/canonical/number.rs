//! Canonical numbers: by value, with all digits.

use memchr::memchr;

/// Most zeros written after the digits of a number, or between them and its point; beyond that an
/// exponent is written.
const ZEROS_MAX: i64 = 20;

/// A whole number of at most this many digits is written as it is: it cannot end with more zeros
/// than [`ZEROS_MAX`].
pub(super) const PLAIN_DIGITS: usize = 20;

/// Appends a number by its value: 0; or digits without zeros at either end, and a power of ten.
pub(super) fn push_number(word: &[u8], out: &mut Vec<u8>) {
    let (negative, word) = match word {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, word),
    };
    let mantissa = word.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(word.len());
    let (mantissa, exponent) = (&word[..mantissa], word.get(mantissa + 1..).unwrap_or_default());
    let point = memchr(b'.', mantissa).unwrap_or(mantissa.len());
    let fraction = mantissa.get(point + 1..).unwrap_or_default();
    let mut digits = [&mantissa[..point], fraction].concat();
    // How far the power of ten is from what the exponent says.
    let mut shift = -wide(fraction.len());
    while digits.last() == Some(&b'0') {
        digits.pop();
        shift += 1;
    }
    let leading = digits.iter().take_while(|&&digit| digit == b'0').count();
    let digits = &digits[leading..];
    if digits.is_empty() {
        return out.push(b'0');
    }
    if negative {
        out.push(b'-');
    }
    let written = out.len();
    match small(exponent).map(|exponent| exponent + shift) {
        Some(power) if (0..=ZEROS_MAX).contains(&power) => {
            out.extend_from_slice(digits);
            push_zeros(power, out);
        }
        Some(power) if power < 0 && -power < wide(digits.len()) => {
            let point = digits.len() - usize::try_from(-power).unwrap_or_default();
            out.extend_from_slice(&digits[..point]);
            out.push(b'.');
            out.extend_from_slice(&digits[point..]);
        }
        Some(power) if power < 0 && -power - wide(digits.len()) <= ZEROS_MAX => {
            out.extend_from_slice(b"0.");
            push_zeros(-power - wide(digits.len()), out);
            out.extend_from_slice(digits);
        }
        _ => {
            out.push(digits[0]);
            if digits.len() > 1 {
                out.push(b'.');
                out.extend_from_slice(&digits[1..]);
            }
            out.push(b'e');
            push_exponent(exponent, shift + wide(digits.len()) - 1, out);
        }
    }
    debug_assert!(out.len() > written, "a number has digits");
}

fn wide(length: usize) -> i64 {
    i64::try_from(length).expect("a text is shorter than 2^63")
}

fn push_zeros(count: i64, out: &mut Vec<u8>) {
    out.extend((0..count).map(|_| b'0'));
}

/// The sign of an exponent, and its digits without leading zeros.
fn parts(exponent: &[u8]) -> (bool, &[u8]) {
    let (negative, digits) = match exponent {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, exponent),
    };
    let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
    (negative, &digits[zeros..])
}

/// Most digits of an exponent that fits 64 bits with any length added.
const SMALL_DIGITS: usize = 17;

/// The exponent as an integer, if it has at most [`SMALL_DIGITS`].
fn small(exponent: &[u8]) -> Option<i64> {
    let (negative, digits) = parts(exponent);
    if digits.len() > SMALL_DIGITS {
        return None;
    }
    let sum = digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    Some(if negative { -sum } else { sum })
}

/// Appends the sum of an exponent, however long, and `more`, which is shorter than any text.
fn push_exponent(exponent: &[u8], more: i64, out: &mut Vec<u8>) {
    if let Some(small) = small(exponent) {
        return out.extend_from_slice((small + more).to_string().as_bytes());
    }
    let (negative, digits) = parts(exponent);
    // It is so large that its sign stays.
    let mut carry = if negative { -more } else { more };
    let mut sum: Vec<u8> = digits.to_vec();
    for digit in sum.iter_mut().rev() {
        if carry == 0 {
            break;
        }
        let total = i64::from(*digit - b'0') + carry;
        *digit = b'0' + u8::try_from(total.rem_euclid(10)).expect("a digit");
        carry = total.div_euclid(10);
    }
    if negative {
        out.push(b'-');
    }
    if carry > 0 {
        out.extend_from_slice(carry.to_string().as_bytes());
    }
    let zeros = sum.iter().take_while(|&&digit| digit == b'0' && carry == 0).count();
    out.extend_from_slice(&sum[zeros..]);
}
