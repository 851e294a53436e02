//! Sizes in bytes, with or without a binary unit.

use crate::base::limits::{REQUEST_BYTES_CEILING, REQUEST_BYTES_FLOOR};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::fmt;
use std::str::FromStr;

/// A number of bytes: `1048576`, `1024KiB` or `1MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Size(pub(in crate::cli) usize);

const UNITS: [(&str, usize); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unit =
            UNITS.iter().find_map(|&(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
        let (digits, factor) = unit.unwrap_or((text, 1));
        let number: usize = digits
            .trim_end()
            .parse()
            .map_err(|_| "give a number of bytes, or one with KiB, MiB or GiB".to_owned())?;
        number.checked_mul(factor).map(Self).ok_or_else(|| "this is too large".to_owned())
    }
}

impl Size {
    /// Checks that it is one of the limits on requests that are possible.
    pub(super) fn of_request(self) -> Result<Self, String> {
        if (REQUEST_BYTES_FLOOR..=REQUEST_BYTES_CEILING).contains(&self.0) {
            Ok(self)
        } else {
            Err(format!(
                "a size from {REQUEST_BYTES_FLOOR} to {REQUEST_BYTES_CEILING} bytes is possible"
            ))
        }
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SizeVisitor;

        impl Visitor<'_> for SizeVisitor {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes, or a string like \"1MiB\"")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Size, E> {
                usize::try_from(number).map(Size).map_err(|_| E::custom("a size is not negative"))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(SizeVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::Size;

    #[test]
    fn sizes_are_parsed_with_and_without_units() {
        assert_eq!("1024".parse(), Ok(Size(1024)));
        assert_eq!("64KiB".parse(), Ok(Size(65_536)));
        assert_eq!("2 MiB".parse(), Ok(Size(2 << 20)));
        assert_eq!("1GiB".parse(), Ok(Size(1 << 30)));
        for invalid in ["", "KiB", "1.5MiB", "-1", "1MB", "99999999999999GiB"] {
            assert!(invalid.parse::<Size>().is_err(), "{invalid}");
        }
    }
}
