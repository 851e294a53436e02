//! The dashboard: `--ui` and `--ui-label`.

use clap::ValueEnum;
use serde::Deserialize;
use std::str::FromStr;

/// The longest label, in characters.
const LABEL_MAX: usize = 40;

/// The value of `--ui`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum UiSwitch {
    On,
    Off,
}

/// The value of `--ui-label`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UiLabel(pub(super) Box<str>);

impl FromStr for UiLabel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.chars().any(char::is_control) || text.chars().count() > LABEL_MAX {
            return Err(format!(
                "a label has at most {LABEL_MAX} characters, such as production, and no control \
                 characters"
            ));
        }
        Ok(Self(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_is_short_text() {
        assert_eq!(" production ".parse(), Ok(UiLabel("production".into())));
        assert_eq!("".parse(), Ok(UiLabel("".into())));
        for wrong in ["a\nb".to_owned(), "x".repeat(41)] {
            assert!(wrong.parse::<UiLabel>().is_err(), "{wrong:?}");
        }
    }
}
