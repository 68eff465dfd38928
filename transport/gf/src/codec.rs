//! One code: its matrix and the kernel that runs it.

use core::fmt;

use transport::ec::{BlockShape, DATA_MAX, PARITY_MAX};

use crate::field::{self, ORDER, power};
use crate::interpolation::{Exchange, Picked, Points};
use crate::kernel::Kernel;
use crate::pairs::{Equations, equations};
use crate::products::Coefficients;

const DATA: usize = DATA_MAX as usize;
const PARITY: usize = PARITY_MAX as usize;
/// The data packets that most codes have at most; for these less has to be prepared.
const FEW: usize = 8;
/// Every other bit, from the lowest on.
const EVEN: u64 = u64::MAX / 3;

/// Encodes and decodes blocks of one shape.
#[derive(Clone, Debug)]
pub struct Codec {
    shape: BlockShape,
    kernel: Kernel,
    points: Points,
    /// One row of `shape.data()` coefficients for each parity packet.
    rows: Vec<u8>,
    /// The equations of parity packets 2i and 2i + 1, for each i.
    equations: Vec<Equations>,
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

    /// The code of blocks of `shape`, on `kernel`; `None` when this processor cannot run it.
    #[must_use]
    pub fn with_kernel(shape: BlockShape, kernel: Kernel) -> Option<Self> {
        kernel.is_supported().then(|| Self::build(shape, kernel))
    }

    fn build(shape: BlockShape, kernel: Kernel) -> Self {
        let points = Points::new(shape.data());
        let rows = parity_rows(&points, shape.data(), shape.parity());
        let equations = equations(shape.data(), &rows);
        Self { shape, kernel, points, rows, equations }
    }

    /// Data and parity packets of a full block.
    #[must_use]
    pub const fn shape(&self) -> BlockShape {
        self.shape
    }

    /// The kernel that runs the code.
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
        self.kernel.add(&coefficients, segment, parity);
    }

    /// Sets the front of each parity packet to what data packet `index` adds to it: the first
    /// [`Codec::update`] of a block, without zeros to be written and read before.
    ///
    /// # Panics
    /// As [`Codec::update`].
    pub fn start(&self, index: u8, segment: &[u8], parity: &mut [&mut [u8]]) {
        self.check_update(index, segment, parity);
        let coefficients = self.coefficients().sources_from(usize::from(index));
        self.kernel.combine(&coefficients, &[segment], parity, segment.len());
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
        let (pairs, single) = data.as_chunks();
        let alike = alike(data) && parity.iter().all(|parity| parity.len() == longest);
        let in_pairs = self.kernel.has_pairs() && single.is_empty() && alike;
        let equations = if in_pairs { &self.equations[..] } else { &[] };
        let (twos, others) = parity.split_at_mut(2 * equations.len());
        for (two, equations) in twos.as_chunks_mut().0.iter_mut().zip(equations) {
            equations.encode(self.kernel, pairs, two);
        }
        if !others.is_empty() {
            let coefficients = self.coefficients().outputs_from(2 * equations.len());
            combine(self.kernel, &coefficients, data, others);
        }
    }

    /// Restores the missing data packets of a block in place. `packets` are the block's, `data` of
    /// them data and then all parity; bit i of `have` says that packet i is there. A missing data
    /// packet is a slice of its own length. Missing parity stays as it is.
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
        let lost = !have & ((1 << data) - 1);
        if lost == 0 {
            return Ok(());
        }
        if self.decode_pairs(data, lost, have >> data, packets) {
            return Ok(());
        }
        let (lost, used) = pick(data, self.shape.parity(), have)?;
        if lost.len() == 1 {
            match usize::from(data) {
                0..=FEW => self.decode_one::<FEW>(data, lost, used, packets),
                _ => self.decode_one::<DATA>(data, lost, used, packets),
            }
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
        combine(self.kernel, &coefficients, &sources[..known], &mut outputs[..restored]);
        Ok(())
    }

    /// Restores the `lost` packets when they are one or two and there are two neighbours among the
    /// `parity` that is there; else false.
    fn decode_pairs(&self, data: u8, lost: u64, parity: u64, packets: &mut [&mut [u8]]) -> bool {
        let after_one = lost & (lost - 1);
        let two_at_most = after_one == 0 || after_one & (after_one - 1) == 0;
        let number = (parity & parity >> 1 & EVEN).trailing_zeros() as usize / 2;
        let Some(equations) = self.equations.get(number).filter(|_| two_at_most) else {
            return false;
        };
        let together = self.kernel.has_pairs() && alike(packets);
        let (data, parity) = packets.split_at_mut(usize::from(data));
        let (pairs, single) = data.as_chunks_mut();
        if !together || !single.is_empty() {
            return false;
        }
        let parity = [&*parity[2 * number], &*parity[2 * number + 1]];
        equations.decode(self.kernel, lost, pairs, parity);
        true
    }

    /// Restores one `lost` packet from the others and the parity packet `used`: the parity and each
    /// other packet's product in it, divided by the coefficient of the lost one.
    fn decode_one<const N: usize>(
        &self,
        data: u8,
        lost: Picked,
        used: Picked,
        packets: &mut [&mut [u8]],
    ) {
        let (data, parity) = packets.split_at_mut(usize::from(data));
        let (Some(lost), Some(used)) = (lost.iter().next(), used.iter().next()) else { return };
        let row = self.coefficients().outputs_from(usize::from(used));
        let divided =
            |logarithm| power(logarithm + ORDER - field::logarithm(row.at(0, usize::from(lost))));
        let (mut sources, mut by, mut count) = ([&[][..]; N], [0; N], 1);
        (sources[0], by[0]) = (&*parity[usize::from(used)], divided(0));
        let mut output: &mut [u8] = &mut [];
        for (number, packet) in data.iter_mut().enumerate() {
            if number == usize::from(lost) {
                output = packet;
            } else {
                sources[count] = packet;
                by[count] = divided(field::logarithm(row.at(0, number)));
                count += 1;
            }
        }
        let coefficients = Coefficients { bytes: &by, stride: N };
        combine(self.kernel, &coefficients, &sources[..count], &mut [output]);
    }

    /// The coefficients that give the `lost` data packets from the others and the parity `used`, in
    /// that order. Data packets that a short block lacks are zeros.
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

/// Whether all packets have one length.
fn alike<T: AsRef<[u8]>>(packets: &[T]) -> bool {
    // All of them are compared: that is less work than to stop at one.
    let first = packets.first().map_or(0, |packet| packet.as_ref().len());
    packets.iter().fold(0, |unlike, packet| unlike | packet.as_ref().len() ^ first) == 0
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
    coefficients: &Coefficients<'_>,
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
            kernel.add(&coefficients.sources_from(i), source, &mut [&mut *rest]);
        }
    }
}
