//! The cable path of the papers.
