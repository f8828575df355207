//! Values of the daemons' files that are written as text, with an error at the value's place in the file.

/// Makes a type for a value that is written as text and read by a function that says what it expected instead.
macro_rules! from_text {
    ($name:ident, $inner:ty, $read:expr) => {
        #[derive(Debug)]
        struct $name($inner);

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                let read: Result<$inner, String> = $read(text.as_str());
                read.map($name).map_err(|expected| {
                    <D::Error as serde::de::Error>::custom($crate::from_text::found(&text, expected))
                })
            }
        }
    };
}

pub(crate) use from_text;

/// The words for a text that is not what was expected.
pub(crate) fn found(text: &str, expected: impl std::fmt::Display) -> String {
    format!("found {text:?}, expected {expected}")
}
