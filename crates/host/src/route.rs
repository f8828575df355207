//! Routes, and what TCP does differently on them.

use std::net::Ipv4Addr;

use headend_engine::time::Duration;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::device::Device;
use crate::error::{During, Error};
use crate::netlink::Netlink;

/// The way to a network: through a device, without a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The network's address.
    pub to: Ipv4Addr,
    /// The length of the prefix that is the network's.
    pub prefix_len: u8,
    /// The address that packets come from if the sender names none.
    pub source: Option<Ipv4Addr>,
    /// The metrics that TCP uses on this route.
    pub metrics: Metrics,
}

/// TCP's metrics of a route: they hold for every connection whose program asks for nothing else (ip-route(8)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// `initcwnd`: the initial window, in segments.
    pub initial_window_segments: Option<u32>,
    /// `rto_min`: the smallest retransmission time-out. The kernel keeps whole milliseconds, rounded to its clock's
    /// ticks.
    pub rto_min: Option<Duration>,
    /// `advmss`: the segment size offered, in bytes.
    pub advertised_mss: Option<u32>,
    /// `quickack`: acknowledge everything at once.
    pub quick_ack: bool,
    /// `congctl`: congestion control, by the kernel's name.
    pub congestion_control: Option<String>,
}

impl Metrics {
    fn attributes(&self) -> Vec<RouteMetric> {
        let rto_min = |rto: Duration| u32::try_from(rto.as_nanos() / 1_000_000).unwrap_or(u32::MAX);
        let mut metrics: Vec<RouteMetric> = [
            self.initial_window_segments.map(RouteMetric::InitCwnd),
            self.rto_min.map(|rto| RouteMetric::RtoMin(rto_min(rto))),
            self.advertised_mss.map(RouteMetric::Advmss),
            self.quick_ack.then_some(RouteMetric::QuickAck(1)),
            self.congestion_control.clone().map(RouteMetric::CcAlgo),
        ]
        .into_iter()
        .flatten()
        .collect();
        if self.rto_min.is_some() {
            // The kernel heeds `rto_min` only where it is locked, as `ip route ... rto_min` does it.
            const RTAX_RTO_MIN: u32 = 13;
            metrics.insert(0, RouteMetric::Lock(1 << RTAX_RTO_MIN));
        }
        metrics
    }
}

impl Route {
    /// The way to everywhere.
    pub fn default_route(source: Ipv4Addr, metrics: Metrics) -> Route {
        Route { to: Ipv4Addr::UNSPECIFIED, prefix_len: 0, source: Some(source), metrics }
    }

    /// Adds the route, through `device`.
    pub fn add(&self, netlink: &mut Netlink, device: &Device) -> Result<(), Error> {
        let mut message = RouteMessage::default();
        message.header = RouteHeader {
            address_family: AddressFamily::Inet,
            destination_prefix_length: self.prefix_len,
            table: RouteHeader::RT_TABLE_MAIN,
            protocol: RouteProtocol::Static,
            scope: RouteScope::Link,
            kind: RouteType::Unicast,
            ..RouteHeader::default()
        };
        let mut attributes = vec![RouteAttribute::Oif(device.index)];
        if self.prefix_len > 0 {
            attributes.push(RouteAttribute::Destination(RouteAddress::Inet(self.to)));
        }
        attributes.extend(self.source.map(|source| RouteAttribute::PrefSource(RouteAddress::Inet(source))));
        let metrics = self.metrics.attributes();
        if !metrics.is_empty() {
            attributes.push(RouteAttribute::Metrics(metrics));
        }
        message.attributes = attributes;
        netlink
            .create(RouteNetlinkMessage::NewRoute(message))
            .during(|| format!("add a route to {}/{} through {}", self.to, self.prefix_len, device.name))
    }
}
