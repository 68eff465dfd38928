//! How many switches, hosts and Cores a pod has, and how they are numbered.
//! Source: \[zeropod\] III-A.
//!
//! Host `h` is host `h % per_tor` of ToR `h / per_tor`. Every ToR has a link to and from every
//! Aggregation switch (Agg). Core `c` has one port in this pod, at Agg `c % aggs`: it is that Agg's
//! Core number `c / aggs`, its *layer*.

use core::fmt;

/// ToRs of a pod, hosts of a ToR and Aggs of a pod at most: the bits of one word.
pub(super) const LANES: usize = 32;
/// Cores of an Agg at most.
pub(super) const LAYERS: usize = 8;
/// Pods at most: the bits of one word.
pub(super) const PODS: usize = 32;

/// Bits of the fraction in [`Shape::place`]. With d hosts a ToR the reciprocal is too large by at
/// most d / d = 1, so the quotient of any number below 2^16 / d is exact.
const RECIPROCAL_BITS: u32 = 16;
const _: () = assert!(LANES * LANES * LANES < 1 << RECIPROCAL_BITS);

/// A word of 32 bits for each ToR, or for each Agg. Aligned to a line of the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(64))]
pub(super) struct Words(pub(super) [u32; LANES]);

impl Words {
    /// No bit set.
    pub(super) const ZERO: Self = Self([0; LANES]);
    /// Every bit set.
    pub(super) const ALL: Self = Self([!0; LANES]);
}

/// The numbers of one pod. A `Shape` that exists is legal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    hosts: usize,
    per_tor: usize,
    /// 2^16 over `per_tor`, rounded up to the next whole number: divisions take too long where
    /// every request needs several.
    reciprocal: usize,
    tors: usize,
    aggs: usize,
    cores: usize,
    mice_cores: usize,
    mice_first: bool,
    pods: usize,
    pod: usize,
}

/// A number of a pod that is out of range: its name, its value, and the range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfRange {
    /// The name of the number.
    pub name: &'static str,
    /// The value of the number.
    pub value: usize,
    /// The least that is allowed.
    pub min: usize,
    /// The most that is allowed, given the other numbers.
    pub max: usize,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, min, max } = self;
        write!(f, "{name} is {value}; expected {min} to {max}")
    }
}

impl core::error::Error for OutOfRange {}

fn within(name: &'static str, value: usize, min: usize, max: usize) -> Result<(), OutOfRange> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(OutOfRange { name, value, min, max }) }
}

impl Shape {
    /// A pod of `hosts` hosts, `per_tor` of them at each ToR, with `aggs` Aggs and nothing outside.
    ///
    /// # Errors
    /// A number out of range; more hosts than 32 ToRs can have.
    pub fn new(hosts: usize, per_tor: usize, aggs: usize) -> Result<Self, OutOfRange> {
        within("hosts a ToR", per_tor, 1, LANES)?;
        within("aggregation switches", aggs, 1, LANES)?;
        within("hosts", hosts, 2, per_tor * LANES)?;
        let tors = hosts.div_ceil(per_tor);
        let reciprocal = (1 << RECIPROCAL_BITS) / per_tor + 1;
        let (cores, mice_cores, mice_first, pods, pod) = (0, 0, false, 1, 0);
        Ok(Self {
            hosts,
            per_tor,
            reciprocal,
            tors,
            aggs,
            cores,
            mice_cores,
            mice_first,
            pods,
            pod,
        })
    }

    /// The smallest fully provisioned pod for `hosts` hosts: m Aggs, m hosts a ToR, m ToRs at most.
    ///
    /// # Errors
    /// Not 2 to 1024 hosts.
    pub fn square(hosts: usize) -> Result<Self, OutOfRange> {
        within("hosts", hosts, 2, LANES * LANES)?;
        let m = (1..=LANES).find(|m| m * m >= hosts).unwrap_or(LANES);
        Self::new(hosts, m, m)
    }

    /// This pod with `cores` Cores to `pods` pods, of which this is number `pod`. The last
    /// `mice_cores` of the Cores carry only demands that have a mouse.
    ///
    /// # Errors
    /// More Cores than the Aggs have ports for, none of them for all demands, pods out of range.
    pub fn with_cores(
        self,
        cores: usize,
        mice_cores: usize,
        pods: usize,
        pod: usize,
    ) -> Result<Self, OutOfRange> {
        within("cores", cores, 1, self.aggs * LAYERS)?;
        within("mice-only cores", mice_cores, 0, cores - 1)?;
        within("pods", pods, 2, PODS)?;
        within("pod", pod, 0, pods - 1)?;
        Ok(Self { cores, mice_cores, pods, pod, ..self })
    }

    /// This pod, in which a demand with a mouse takes a Core for mice alone where one is idle.
    #[must_use]
    pub const fn with_mice_first(self, mice_first: bool) -> Self {
        Self { mice_first, ..self }
    }

    /// Whether a demand with a mouse takes a Core for mice alone where one is idle, instead of any
    /// Core.
    #[inline]
    #[must_use]
    pub const fn mice_first(&self) -> bool {
        self.mice_first
    }

    /// Hosts of the pod, 2 to 1024.
    #[inline]
    #[must_use]
    pub const fn hosts(&self) -> usize {
        self.hosts
    }

    /// Hosts of a ToR, 1 to 32.
    #[inline]
    #[must_use]
    pub const fn per_tor(&self) -> usize {
        self.per_tor
    }

    /// ToRs, 1 to 32.
    #[inline]
    #[must_use]
    pub const fn tors(&self) -> usize {
        self.tors
    }

    /// Aggs, 1 to 32.
    #[inline]
    #[must_use]
    pub const fn aggs(&self) -> usize {
        self.aggs
    }

    /// Cores, 0 in a single pod.
    #[inline]
    #[must_use]
    pub const fn cores(&self) -> usize {
        self.cores
    }

    /// Cores that carry mice only: the last ones.
    #[inline]
    #[must_use]
    pub const fn mice_cores(&self) -> usize {
        self.mice_cores
    }

    /// Pods in all, 1 to 32.
    #[inline]
    #[must_use]
    pub const fn pods(&self) -> usize {
        self.pods
    }

    /// The number of this pod.
    #[inline]
    #[must_use]
    pub const fn pod(&self) -> usize {
        self.pod
    }

    /// Senders: hosts, then Cores.
    #[inline]
    #[must_use]
    pub const fn senders(&self) -> usize {
        self.hosts + self.cores
    }

    /// The ToR of a host and the host's number there.
    #[inline]
    #[must_use]
    pub const fn place(&self, host: usize) -> (usize, usize) {
        debug_assert!(host < LANES * LANES, "hosts of a pod");
        let tor = (host * self.reciprocal) >> RECIPROCAL_BITS;
        (tor, host - tor * self.per_tor)
    }

    /// The Agg of a Core and the Core's layer there.
    //= zeropod#III-C
    #[inline]
    #[must_use]
    pub const fn core_place(&self, core: usize) -> (usize, usize) {
        (core % self.aggs, core / self.aggs)
    }

    /// Layers of Cores in use.
    #[inline]
    #[must_use]
    pub const fn layers(&self) -> usize {
        self.cores.div_ceil(self.aggs)
    }

    /// A bit for each Agg.
    #[inline]
    #[must_use]
    pub const fn agg_mask(&self) -> u32 {
        low_bits(self.aggs)
    }

    /// A bit for each host of a ToR, the last of which may have fewer.
    #[inline]
    #[must_use]
    pub const fn hosts_of(&self, tor: usize) -> u32 {
        let first = tor * self.per_tor;
        if first >= self.hosts {
            return 0;
        }
        let left = self.hosts - first;
        low_bits(if left < self.per_tor { left } else { self.per_tor })
    }

    /// A bit for each Agg with a Core of `layer`: mice-only Cores when `mice`, else the others.
    #[must_use]
    pub fn layer_mask(&self, layer: usize, mice: bool) -> u32 {
        let first_mice = self.cores - self.mice_cores;
        let cores = (layer * self.aggs..(layer + 1) * self.aggs).take_while(|c| *c < self.cores);
        cores.filter(|c| (*c >= first_mice) == mice).fold(0, |mask, c| mask | 1 << (c % self.aggs))
    }
}

/// The lowest `count` bits of a word, 0..=32.
pub(super) const fn low_bits(count: usize) -> u32 {
    if count >= 32 { !0 } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_square_pod_has_room_for_its_hosts_and_no_smaller_one_has() {
        for hosts in 2..=1024 {
            let shape = Shape::square(hosts).unwrap();
            let m = shape.aggs();
            assert!(m * m >= hosts && (m - 1) * (m - 1) < hosts, "{hosts}: {m}");
            let bits: u32 = (0..LANES).map(|tor| shape.hosts_of(tor).count_ones()).sum();
            assert_eq!(bits as usize, hosts);
        }
    }

    #[test]
    fn a_host_is_at_the_tor_that_a_division_says() {
        for per_tor in 1..=LANES {
            let shape = Shape::new(2, per_tor, 1).unwrap();
            for host in 0..LANES * LANES {
                assert_eq!(shape.place(host), (host / per_tor, host % per_tor), "{per_tor}");
            }
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused_with_their_range() {
        let error = Shape::square(1025).unwrap_err();
        assert_eq!(error.to_string(), "hosts is 1025; expected 2 to 1024");
        assert!(Shape::square(1).is_err() && Shape::new(4, 0, 1).is_err());
        assert!(Shape::new(4, 2, 33).is_err() && Shape::new(65, 2, 2).is_err());
        let pod = Shape::square(16).unwrap();
        assert!(pod.with_cores(7, 1, 8, 0).is_ok());
        for (cores, mice, pods, this) in
            [(0, 0, 8, 0), (33, 0, 8, 0), (7, 7, 8, 0), (7, 0, 1, 0), (7, 0, 33, 0), (7, 0, 8, 8)]
        {
            assert!(
                pod.with_cores(cores, mice, pods, this).is_err(),
                "{cores} {mice} {pods} {this}"
            );
        }
    }

    #[test]
    fn every_core_is_in_one_layer_and_the_last_are_for_mice() {
        let shape = Shape::square(16).unwrap().with_cores(7, 1, 8, 0).unwrap();
        assert_eq!(shape.layers(), 2);
        assert_eq!((shape.layer_mask(0, false), shape.layer_mask(0, true)), (0b1111, 0));
        assert_eq!((shape.layer_mask(1, false), shape.layer_mask(1, true)), (0b011, 0b100));
    }
}
