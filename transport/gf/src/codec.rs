//! One code: its matrix and the kernel that runs it.

use core::fmt;

use transport::ec::{BlockShape, DATA_MAX, PARITY_MAX};

use crate::interpolation::{Exchange, Picked, Points};
use crate::kernel::{Coefficients, Kernel};

const DATA: usize = DATA_MAX as usize;
const PARITY: usize = PARITY_MAX as usize;

/// Encodes and decodes blocks of one shape.
#[derive(Clone, Debug)]
pub struct Codec {
    shape: BlockShape,
    kernel: Kernel,
    points: Points,
    /// One row of `shape.data()` coefficients for each parity packet.
    rows: Vec<u8>,
}

/// Fewer packets of a block are there than it has data packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotDecodable;

impl fmt::Display for NotDecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the block has fewer packets than it has data packets")
    }
}

impl core::error::Error for NotDecodable {}

impl Codec {
    /// The code of blocks of `shape`, on the fastest kernel.
    #[must_use]
    pub fn new(shape: BlockShape) -> Self {
        Self::build(shape, Kernel::best())
    }

    /// The same on `kernel`; `None` when this processor cannot run it.
    #[must_use]
    pub fn with_kernel(shape: BlockShape, kernel: Kernel) -> Option<Self> {
        kernel.is_supported().then(|| Self::build(shape, kernel))
    }

    fn build(shape: BlockShape, kernel: Kernel) -> Self {
        let points = Points::new(shape.data());
        let rows = parity_rows(&points, shape.data(), shape.parity());
        Self { shape, kernel, points, rows }
    }

    /// Data and parity packets of a full block.
    #[must_use]
    pub const fn shape(&self) -> BlockShape {
        self.shape
    }

    /// What runs it.
    #[must_use]
    pub const fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// Adds data packet `index` of a block to the block's parity, which starts as zeros. Every
    /// packet of a block is added once, in any order; a short block lacks the last ones.
    ///
    /// # Panics
    /// When there is no such packet, when `parity` has not one slice for each parity packet, or
    /// when one is shorter than `segment`.
    pub fn update(&self, index: u8, segment: &[u8], parity: &mut [&mut [u8]]) {
        self.check_update(index, segment, parity);
        let coefficients = self.coefficients().sources_from(usize::from(index));
        self.kernel.add(coefficients, segment, parity);
    }

    /// Sets the front of each parity packet to what data packet `index` adds to it: the first
    /// [`Codec::update`] of a block, without zeros to be written and read before.
    ///
    /// # Panics
    /// As [`Codec::update`].
    pub fn start(&self, index: u8, segment: &[u8], parity: &mut [&mut [u8]]) {
        self.check_update(index, segment, parity);
        let coefficients = self.coefficients().sources_from(usize::from(index));
        self.kernel.combine(coefficients, &[segment], parity, segment.len());
    }

    fn check_update(&self, index: u8, segment: &[u8], parity: &[&mut [u8]]) {
        assert!(index < self.shape.data(), "data packet {index} of {:?}", self.shape);
        assert_eq!(parity.len(), usize::from(self.shape.parity()), "parity packets");
        assert!(parity.iter().all(|parity| parity.len() >= segment.len()), "short parity");
    }

    /// Sets `parity` to the parity of a block whose data packets are `data`; fewer than a full
    /// block's for a short block.
    ///
    /// # Panics
    /// When `data` is empty or longer than a full block, when `parity` has not one slice for each
    /// parity packet, or when one is shorter than a data packet.
    pub fn encode(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) {
        assert!((1..=usize::from(self.shape.data())).contains(&data.len()), "data packets");
        assert_eq!(parity.len(), usize::from(self.shape.parity()), "parity packets");
        let longest = data.iter().map(|packet| packet.len()).max().unwrap_or(0);
        assert!(parity.iter().all(|parity| parity.len() >= longest), "short parity");
        combine(self.kernel, self.coefficients(), data, parity);
    }

    /// Restores the missing data packets of a block in place. `packets` are the block's, `data` of
    /// them data and then all parity; bit i of `have` says that packet i is there. What is missing
    /// is given as a slice of the length it has to have. Missing parity stays as it is.
    ///
    /// # Errors
    /// When too few packets are there.
    ///
    /// # Panics
    /// When `data` is not in `1..=shape.data()`, or `packets` has not `data` packets and the
    /// parity.
    pub fn decode(
        &self,
        data: u8,
        have: u64,
        packets: &mut [&mut [u8]],
    ) -> Result<(), NotDecodable> {
        assert!((1..=self.shape.data()).contains(&data), "{data} data packets");
        let expected = usize::from(data) + usize::from(self.shape.parity());
        assert_eq!(packets.len(), expected, "packets of a block");
        let (lost, used) = pick(data, self.shape.parity(), have)?;
        if lost.len() == 0 {
            return Ok(());
        }
        let coefficients = self.solution(data, lost, used);
        // The data packets that are there, then the parity that stands in for the lost ones.
        let mut sources: [&[u8]; DATA] = [&[]; DATA];
        let mut outputs: [&mut [u8]; PARITY] = core::array::from_fn(|_| &mut [][..]);
        let (mut known, mut restored) = (0, 0);
        for (number, packet) in (0..).zip(packets) {
            let is_data = number < data;
            if is_data && have & 1 << number == 0 {
                outputs[restored] = packet;
                restored += 1;
            } else if is_data || used.contains(number - data) {
                sources[known] = packet;
                known += 1;
            }
        }
        let coefficients = Coefficients { bytes: &coefficients, stride: DATA };
        combine(self.kernel, coefficients, &sources[..known], &mut outputs[..restored]);
        Ok(())
    }

    /// The coefficients that give the `lost` data packets from the others and the parity `used`, in
    /// that order. What a short block lacks is known to be zeros.
    fn solution(&self, data: u8, lost: Picked, used: Picked) -> [u8; DATA * PARITY] {
        let used = Picked(used.0 << self.shape.data());
        let exchange = Exchange { points: &self.points, lost, used };
        let with_product = |point| (point, exchange.product(point));
        let mut targets = [(0, 0); PARITY];
        for (target, point) in targets.iter_mut().zip(lost.iter()) {
            *target = with_product(point);
        }
        let mut coefficients = [0; DATA * PARITY];
        let known = (0..data).filter(|point| !lost.contains(*point)).chain(used.iter());
        for (at, from) in known.map(with_product).enumerate() {
            for (row, to) in coefficients.chunks_exact_mut(DATA).zip(&targets[..lost.len()]) {
                row[at] = exchange.coefficient(*to, from);
            }
        }
        coefficients
    }

    fn coefficients(&self) -> Coefficients<'_> {
        Coefficients { bytes: &self.rows, stride: usize::from(self.shape.data()) }
    }
}

/// The matrix of the code: `data` coefficients for each of `parity` packets.
pub(crate) fn parity_rows(points: &Points, data: u8, parity: u8) -> Vec<u8> {
    let all = Exchange { points, lost: Picked::NONE, used: Picked::NONE };
    let with_product = |point| (point, all.product(point));
    let row = |to| (0..data).map(move |from| all.coefficient(with_product(to), with_product(from)));
    (data..data + parity).flat_map(row).collect()
}

/// The data packets that `have` lacks, and the first parity packets it has, as many as that.
fn pick(data: u8, parity: u8, have: u64) -> Result<(Picked, Picked), NotDecodable> {
    let lost = !have & ((1 << data) - 1);
    let mut used = have >> data & ((1 << parity) - 1);
    while used.count_ones() > lost.count_ones() {
        used &= !(1 << used.ilog2());
    }
    if used.count_ones() < lost.count_ones() {
        return Err(NotDecodable);
    }
    Ok((Picked(lost), Picked(used)))
}

/// Sets every output to its sum of products, sources that are shorter counting as followed by
/// zeros and those that are longer only as far as the output goes.
fn combine(
    kernel: Kernel,
    coefficients: Coefficients<'_>,
    sources: &[&[u8]],
    outputs: &mut [&mut [u8]],
) {
    let shortest = sources.iter().map(|source| source.len()).min().unwrap_or(0);
    let common = outputs.iter().map(|output| output.len()).min().unwrap_or(0).min(shortest);
    kernel.combine(coefficients, sources, outputs, common);
    for (j, output) in outputs.iter_mut().enumerate() {
        let rest = &mut output[common..];
        if rest.is_empty() {
            continue;
        }
        rest.fill(0);
        let coefficients = coefficients.outputs_from(j);
        for (i, source) in sources.iter().enumerate() {
            let source = &source[common..source.len().min(common + rest.len())];
            kernel.add(coefficients.sources_from(i), source, &mut [&mut *rest]);
        }
    }
}
