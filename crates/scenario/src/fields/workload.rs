//! Sizes of transfers: a family of parts of the engine, each of which describes itself.

use std::sync::LazyLock;

use headend_engine::workload::SizeModel;

use super::Absent::Is;
use super::part::of_family;
use super::{Family, Field, Kind, Shape, field};

/// How much data each instance of a flow carries.
pub static SIZE: Family = Family {
    shape: Shape { name: "size", tag: Some("model"), fields: || &SIZE_FIELDS },
    plain: Kind::SizeOr("unlimited"),
    steps: None,
    table: "{ model = \"web-search\" }",
};
static SIZE_FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let names = Kind::Choice(|| SizeModel::ALL.iter().map(|part| part.name).collect());
    of_family(field("model", names, Is("cdf"), ""), SizeModel::ALL)
});
