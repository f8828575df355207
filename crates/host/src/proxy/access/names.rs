//! Hosts by name: rules about what a client asks for, before it is resolved.

use std::fmt;

use super::super::inbound::Host;

/// Names of hosts: `example.org` for itself alone, `*.example.org` for all below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameRule {
    /// In small letters, without a dot at the end.
    name: String,
    is_above: bool,
}

impl NameRule {
    /// Reads a rule; the error says what would be right.
    pub fn read(text: &str) -> Result<NameRule, &'static str> {
        const EXPECTED: &str = "a host's name, such as \"example.org\", or \"*.example.org\" for all below it; addresses are \
                                told in allow, deny and only";
        let (is_above, name) = text.strip_prefix("*.").map_or((false, text), |below| (true, below));
        match Host::read(name.as_bytes()) {
            Ok(Host::Name(name)) if !canonical(&name).is_empty() => Ok(NameRule { name: canonical(&name), is_above }),
            _ => Err(EXPECTED),
        }
    }

    /// True if it is about `name`, however that is written.
    pub fn covers(&self, name: &str) -> bool {
        let name = canonical(name);
        match self.is_above {
            false => name == self.name,
            true => name.strip_suffix(&self.name).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        }
    }
}

/// DNS does not tell large letters from small ones (RFC 4343), and a name may end in the dot of the root.
fn canonical(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

impl fmt::Display for NameRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.is_above { "*." } else { "" }, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_covered_however_it_is_written() {
        let covers = |rule: &str, name: &str| NameRule::read(rule).expect(rule).covers(name);
        assert!(covers("example.org", "EXAMPLE.org.") && covers("Example.Org.", "example.org"));
        assert!(!covers("example.org", "www.example.org") && !covers("example.org", "badexample.org"));
        assert!(covers("*.example.org", "www.example.org") && covers("*.example.org", "A.B.Example.ORG."));
        assert!(!covers("*.example.org", "example.org") && !covers("*.example.org", "badexample.org"));
        assert!(!covers("*.example.org", ".example.org"), "a label is never empty");
    }

    #[test]
    fn rules_that_are_no_names_are_refused() {
        for text in ["", "*", "*.", ".", "*example.org", "www.*.org", "192.0.2.1", "*.192.0.2.1", "a b", "host:80"] {
            assert!(NameRule::read(text).is_err(), "{text:?}");
        }
        assert_eq!(NameRule::read("*.Example.org").map(|rule| rule.to_string()), Ok("*.example.org".to_owned()));
    }
}
