//! The `headend` command.

fn main() {}
