//! Sizes that studies have published and others have used since.

use std::sync::LazyLock;

use super::Distribution;
use crate::part::{Description, Mistake, Part, Values};

/// The flows of a cluster for web search (Alizadeh et al., "Data Center TCP", SIGCOMM 2010, figure 4), with the points at
/// which later studies have read them off that figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSearch;

/// The flows of a cluster for data mining (Greenberg et al., "VL2", SIGCOMM 2009, figure 2), with the points at which later
/// studies have read them off that figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataMining;

/// Bytes, and how many in a hundred flows are no larger.
const WEB_SEARCH: &[(u64, u64)] = &[
    (0, 0),
    (10_000, 15),
    (20_000, 20),
    (30_000, 30),
    (50_000, 40),
    (80_000, 53),
    (200_000, 60),
    (1_000_000, 70),
    (2_000_000, 80),
    (5_000_000, 90),
    (10_000_000, 97),
    (30_000_000, 100),
];

/// Bytes, and how many in a hundred flows are no larger.
const DATA_MINING: &[(u64, u64)] = &[
    (0, 0),
    (180, 10),
    (216, 20),
    (560, 30),
    (900, 40),
    (1_100, 50),
    (1_870, 60),
    (3_160, 70),
    (10_000, 80),
    (400_000, 90),
    (3_160_000, 95),
    (100_000_000, 98),
    (1_000_000_000, 100),
];

impl Part for WebSearch {
    const DESCRIPTION: Description = Description {
        name: "web-search",
        doc: "Flows of a cluster for web search (Alizadeh et al. 2010, figure 4): half below 73 KB, the mean 1.7 MB.",
        fields: &[],
    };

    fn read(_: &Values) -> Result<WebSearch, Mistake> {
        Ok(WebSearch)
    }
}

impl WebSearch {
    /// The distribution itself.
    pub fn distribution(&self) -> &Distribution {
        static ITSELF: LazyLock<Distribution> = LazyLock::new(|| Distribution::of_weights(WEB_SEARCH));
        &ITSELF
    }
}

impl Part for DataMining {
    const DESCRIPTION: Description = Description {
        name: "data-mining",
        doc: "Flows of a cluster for data mining (Greenberg et al. 2009, figure 2): half below 1.1 KB, the mean 12.7 MB.",
        fields: &[],
    };

    fn read(_: &Values) -> Result<DataMining, Mistake> {
        Ok(DataMining)
    }
}

impl DataMining {
    /// The distribution itself.
    pub fn distribution(&self) -> &Distribution {
        static ITSELF: LazyLock<Distribution> = LazyLock::new(|| Distribution::of_weights(DATA_MINING));
        &ITSELF
    }
}
