//! The server opens the data connection to its client and sends, as for an FTP `get` (RFC 959 s3.2; tuning paper s6.1).

use super::transfer::{ARRIVALS, BYTES, LOAD, VIA, WHOLE_SEGMENTS};
use super::{Kind, Opening, Ports, Table, Talk, Transfer, socket};
use crate::fields::Field;

/// The server opens the data connection to its client and sends, as for an FTP `get` (RFC 959 s3.2; tuning paper s6.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FtpGet(pub Transfer);

impl Kind for FtpGet {
    const NAME: &'static str = "ftp-get";
    const DOC: &'static str = "the server `from` opens the data connection to its client `to` and sends.";
    const FIELDS: &'static [Field] = &[VIA, BYTES, ARRIVALS, LOAD, WHOLE_SEGMENTS, socket::FIELD];
    const ONLY_SIMULATED: Option<&'static str> = None;

    fn read(table: &Table<'_, '_>) -> FtpGet {
        let whole_segments = table.section.setting("whole_segments").flag();
        let socket = socket::read(table);
        FtpGet(Transfer::read(table, Talk::Push { opening: Opening::BySender, whole_segments, socket }))
    }

    fn transfer(&self) -> Option<&Transfer> {
        Some(&self.0)
    }

    fn ports(&self) -> Ports {
        self.0.ports()
    }
}
