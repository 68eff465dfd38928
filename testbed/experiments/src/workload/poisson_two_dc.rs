//! Poisson arrivals inside and between two datacentres. Each flow stays inside with a given
//! probability, and sizes inside and across have distributions of their own. Alternatively both
//! kinds have loads of their own. The load inside is a share of a datacentre's capacity, the load
//! across a share of that of the link between them, one way.
//!
//! Source: \[uno\] sec. 5.1, realistic workload: web search inside, Alibaba's WAN across, four
//! flows of five inside. A host's rate is its share of the link over the mean size of the mix, so
//! the ratio is one of flows, not of bytes. Destinations are uniform in the own or the other
//! datacentre. Hosts, streams and lines as in `poisson.rs`. A host alone in its datacentre sends
//! across only.

use transport::{Rate, Rng};

use super::cdf::Cdf;
use super::matrix::Matrix;
use super::params::{ParamPlace, Parameter, Params};
use super::poisson::{PoissonArrivals, bps};
use super::two_dc::{Division, TwoDc};
use super::{Capacities, Workload};
use crate::input::InputError;

/// The parameters of Poisson traffic in two datacentres.
#[derive(Clone, Debug, PartialEq)]
pub struct PoissonTwoDc {
    /// Sizes of flows inside a datacentre.
    pub intra: Cdf,
    /// Sizes of flows across.
    pub inter: Cdf,
    /// Share of the flows that stay inside, 0..=1.
    pub intra_share: f64,
    /// The place of the share or of the load inside, where one above 0 is given.
    inside: Option<ParamPlace>,
    /// The division of hosts between the datacentres.
    pub division: Division,
    /// What flows inside and across offer; with it neither the share nor `arrivals.load` counts.
    pub loads: Option<Loads>,
    /// When flows start.
    pub arrivals: PoissonArrivals,
}

/// Separate loads of flows inside a datacentre and of those that leave it.
#[derive(Clone, Debug, PartialEq)]
pub struct Loads {
    /// Share of `intra_base` that flows inside a datacentre offer, 0..=1.
    pub intra: f64,
    /// The capacity inside a datacentre.
    pub intra_base: Rate,
    /// Share of `inter_base` that flows out of a datacentre offer, 0..=1.
    pub inter: f64,
    /// The capacity out of a datacentre.
    pub inter_base: Rate,
    /// Where both capacities stand.
    places: [ParamPlace; 2],
}

impl PoissonTwoDc {
    /// The sentence that `headrace list` prints beside the name.
    pub const ABOUT: &'static str =
        "flows of drawn sizes at random times inside and between two datacentres";
    /// The parameters that [`PoissonTwoDc::from_params`] reads.
    pub const PARAMETERS: &'static [Parameter] = &[
        Parameter { name: "intra_cdf", about: "sizes inside: a name or a file (websearch)" },
        Parameter { name: "inter_cdf", about: "sizes across: a name or a file (alibaba-wan)" },
        Parameter { name: "intra_share", about: "share of the flows inside, 0..1 (0.8)" },
        Parameter {
            name: "intra_load",
            about: "load inside, as a share of intra_base, 0..1; with inter_load, not load",
        },
        Parameter { name: "intra_base", about: "capacity inside a datacentre, like 800Gbps" },
        Parameter {
            name: "inter_load",
            about: "load across, each way, as a share of inter_base, 0..1",
        },
        Parameter { name: "inter_base", about: "capacity across, one way, like 100Gbps" },
        Division::DC0_HOSTS,
        PoissonArrivals::LOAD,
        PoissonArrivals::LINK_RATE,
        PoissonArrivals::DURATION,
        PoissonArrivals::FLOWS,
    ];

    /// Reads the parameters.
    ///
    /// # Errors
    /// When a value is wrong or the file of a distribution is.
    pub fn from_params(params: &Params) -> Result<Self, InputError> {
        Ok(Self {
            intra: params.cdf_or("intra_cdf", "websearch")?,
            inter: params.cdf_or("inter_cdf", "alibaba-wan")?,
            //= uno#5.1
            intra_share: params.real("intra_share", 0.8, 0.0, 1.0)?,
            division: Division::from_params(params)?,
            loads: Loads::from_params(params)?,
            arrivals: PoissonArrivals::from_params(params)?,
            // Once the loads are known to be numbers.
            inside: place_inside(params)?,
        })
    }

    /// Refuses flows inside where neither datacentre has two hosts.
    fn check_inside(&self, hosts: TwoDc) -> Result<(), InputError> {
        let is_alone = |dc| hosts.hosts(dc).len() < 2;
        let Some(inside) = self.inside.as_ref().filter(|_| is_alone(0) && is_alone(1)) else {
            return Ok(());
        };
        let error = inside.error("flows inside datacentres of one host", "none, or more hosts");
        Err(error.help("set the load or share inside to 0, or raise the number of hosts"))
    }

    /// The flows of a host in each datacentre.
    fn senders(&self, hosts: TwoDc) -> Result<[Sender; 2], InputError> {
        let Some(loads) = &self.loads else {
            let inter_share = 1.0 - self.intra_share;
            let mean =
                self.intra_share * self.intra.mean_bytes() + inter_share * self.inter.mean_bytes();
            let gap_mean_ps = self.arrivals.gap_mean_ps(mean);
            return Ok([Sender { gap_mean_ps, intra_share: self.intra_share }; 2]);
        };
        let mut senders = [Sender { gap_mean_ps: 0.0, intra_share: 0.0 }; 2];
        for (dc, sender) in senders.iter_mut().enumerate() {
            let [inside, across] = loads.offered(hosts, dc);
            loads.check_offered([inside, across], self.arrivals.link_rate, OR_LINK_RATE)?;
            let flows_a_ps = |rate: f64, size: f64| rate / 8e12 / size.max(1.0);
            let inside = flows_a_ps(inside, self.intra.mean_bytes());
            let all = inside + flows_a_ps(across, self.inter.mean_bytes());
            *sender = Sender { gap_mean_ps: 1.0 / all, intra_share: inside / all };
        }
        Ok(senders)
    }
}

/// Where the share of flows inside, or their load, is given and above 0.
fn place_inside(params: &Params) -> Result<Option<ParamPlace>, InputError> {
    for name in ["intra_load", "intra_share"] {
        if params.real(name, 0.0, 0.0, f64::MAX)? > 0.0 {
            return Ok(Some(params.place(name)));
        }
    }
    Ok(None)
}

/// When a host starts flows, and how many stay inside.
#[derive(Clone, Copy, Debug)]
struct Sender {
    gap_mean_ps: f64,
    intra_share: f64,
}

/// What to do about a load beyond its base.
const MEND: &str = "a load is a share of its base: lower it, or raise intra_base or inter_base \
                    where the network has more";

/// What to do about loads that a host's link does not carry.
const LESS: &str = "lower intra_load or inter_load";
const OR_LINK_RATE: &str = "lower intra_load or inter_load, or say link_rate if hosts have faster \
                            links";

impl Loads {
    /// Reads the four; `None` without any.
    ///
    /// # Errors
    /// When a value is wrong, one is missing, or a single load for both kinds is given beside.
    fn from_params(params: &Params) -> Result<Option<Self>, InputError> {
        const ALL: [&str; 4] = ["intra_load", "intra_base", "inter_load", "inter_base"];
        let Some(given) = ALL.into_iter().find(|name| params.has(name)) else { return Ok(None) };
        if let Some(missing) = ALL.into_iter().find(|name| !params.has(name)) {
            let found = format!("{given} without {missing}");
            let help = "for example intra_load=0.5 intra_base=800Gbps inter_load=0.2 \
                        inter_base=100Gbps";
            return Err(params.error(given, &found, "all four of them").help(help));
        }
        if let Some(other) = ["load", "intra_share"].into_iter().find(|name| params.has(name)) {
            let found = format!("{other} beside {given}");
            let expected = "one load for all flows, or one for each kind";
            return Err(params.error(other, &found, expected).help(format!("remove {other}")));
        }
        let loads = Self {
            intra: params.share("intra_load", 0.0, 0.0, MEND)?,
            intra_base: params.rate("intra_base", Rate::ZERO)?,
            inter: params.share("inter_load", 0.0, 0.0, MEND)?,
            inter_base: params.rate("inter_base", Rate::ZERO)?,
            places: ["intra_base", "inter_base"].map(|name| params.place(name)),
        };
        if loads.intra + loads.inter > 0.0 {
            return Ok(Some(loads));
        }
        let error = params.error("intra_load", "no load at all", "one above 0");
        Err(error.help("raise intra_load or inter_load"))
    }

    /// What a host of datacentre `dc` offers inside and across, bit/s.
    fn offered(&self, hosts: TwoDc, dc: usize) -> [f64; 2] {
        let count = f64::from(hosts.hosts(dc).end - hosts.hosts(dc).start);
        let of = |load: f64, base: Rate| load * bps(base) / count;
        // A host alone in its datacentre has no other host inside.
        let inside = if count > 1.0 { of(self.intra, self.intra_base) } else { 0.0 };
        [inside, of(self.inter, self.inter_base)]
    }

    /// Checks that a host's `link` carries what the host offers inside and across, bit/s.
    fn check_offered(&self, each: [f64; 2], link: Rate, help: &str) -> Result<(), InputError> {
        let offered = each[0] + each[1];
        if offered <= bps(link) * (1.0 + 1e-9) {
            return Ok(());
        }
        let place = &self.places[usize::from(each[1] > each[0])];
        let found = format!("{:.3} Gb/s offered a host", offered / 1e9);
        let most = format!("at most a host's link, {:.3} Gb/s", bps(link) / 1e9);
        Err(place.error(&found, &most).help(help))
    }

    /// Checks that a network has the capacities which are the bases. Links inside a site are not
    /// looked at: how much of the traffic takes them depends on where its hosts are.
    fn check(&self, hosts: TwoDc, network: &Capacities) -> Result<(), InputError> {
        let counts = [0, 1].map(|dc| hosts.hosts(dc).end - hosts.hosts(dc).start);
        let (fewer, more) = (counts[0].min(counts[1]), counts[0].max(counts[1]));
        let links = |count: u32, of| (count, network.host, of);
        let of_hosts = links(fewer, "links of the hosts of the smaller site");
        // Where the division is not the network's, flows between its parts may stay in a site.
        let is_networks = more - fewer < 2 && counts[0] + counts[1] == network.nodes;
        let of_sites = network.across.filter(|_| is_networks);
        let of_sites = of_sites.map(|(count, rate)| (count, rate, "links between the sites"));
        let total = |has: &(u32, Rate, &str)| has.1.as_bps().saturating_mul(has.0.into());
        let across = of_sites.into_iter().chain([of_hosts]).min_by_key(total);
        // Hosts alone in their sites send nothing inside.
        let inside = (more > 1).then(|| links(more, "links of the hosts of the larger site"));
        let checks = [
            ("intra_base", self.intra, self.intra_base, inside),
            ("inter_base", self.inter, self.inter_base, across),
        ];
        for ((name, load, base, has), place) in checks.into_iter().zip(&self.places) {
            let Some(has) = has.filter(|_| load > 0.0) else { continue };
            let most = Rate::from_bps(total(&has));
            if base > most {
                let (count, rate, what) = has;
                let found = format!("{name} = {base}");
                let expected = format!("at most {most}: {what}, {count} of {rate}");
                let help = format!(
                    "set {name} to what the network has, so that the load is a share of that"
                );
                return Err(place.error(&found, &expected).help(help));
            }
        }
        (0..2).try_for_each(|dc| self.check_offered(self.offered(hosts, dc), network.host, LESS))
    }
}

impl Workload for PoissonTwoDc {
    fn check(&self, nodes: u32, network: &Capacities) -> Result<(), InputError> {
        match &self.loads {
            Some(loads) => loads.check(self.division.divide(nodes)?, network),
            None => Ok(()),
        }
    }

    fn generate(&self, nodes: u32, rng: &mut Rng) -> Result<Matrix, InputError> {
        let hosts = self.division.divide(nodes)?;
        self.check_inside(hosts)?;
        let senders = self.senders(hosts)?;
        let of = |src| senders[hosts.dc_of(src)];
        self.arrivals.matrix(
            nodes,
            |src| of(src).gap_mean_ps,
            rng,
            |src, rng| {
                let stays = rng.next_f64() < of(src).intra_share;
                match hosts.draw_near(src, rng).filter(|_| stays) {
                    Some(near) => (near, self.intra.sample(rng)),
                    None => (hosts.draw_far(src, rng), self.inter.sample(rng)),
                }
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use transport::{Bytes, Duration, Rate};

    use crate::workload::matrix::{FlowSpec, Start};

    use super::*;

    /// The mix whose results the paper publishes: storage inside, web search across.
    fn published(load: f64) -> PoissonTwoDc {
        let load = load.to_string();
        let pairs = [
            ("intra-cdf", "ali-storage"),
            ("inter-cdf", "websearch"),
            ("load", load.as_str()),
            ("dc0-hosts", "96"),
            ("duration", "20ms"),
        ];
        PoissonTwoDc::from_params(&Params::from_pairs(pairs)).unwrap()
    }

    #[test]
    fn flows_inside_need_a_datacentre_of_two_hosts() {
        let loads = ["intra_load", "intra_base", "inter_load", "inter_base"];
        let by_load = |inside| -> Vec<(&str, &str)> {
            loads.into_iter().zip([inside, "10Gbps", "0.1", "10Gbps"]).collect()
        };
        let of = |pairs: Vec<(&str, &str)>, nodes| {
            let made = PoissonTwoDc::from_params(&Params::from_pairs(pairs)).unwrap();
            made.generate(nodes, &mut Rng::new(1)).map_err(|error| error.to_string())
        };
        for (pairs, flag) in
            [(by_load("0.5"), "--intra-load"), (vec![("intra_share", "0.5")], "--intra-share")]
        {
            let said = of(pairs.clone(), 2).unwrap_err();
            assert!(said.starts_with(flag) && said.contains("of one host"), "{said}");
            assert!(of(pairs, 3).is_ok());
        }
        assert!(of(by_load("0"), 2).is_ok() && of(Vec::new(), 2).is_ok());
    }

    #[test]
    fn ratio_sizes_and_load_are_as_asked_for() {
        for (load, seed) in [(0.2, 1), (0.4, 2), (0.6, 3)] {
            let workload = published(load);
            let matrix = workload.generate(256, &mut Rng::new(seed)).unwrap();
            let hosts = workload.division.divide(256).unwrap();
            let (inter, intra): (Vec<&FlowSpec>, Vec<&FlowSpec>) = matrix
                .flows
                .iter()
                .partition(|flow| hosts.dc_of(flow.src.0) != hosts.dc_of(flow.dst.0));
            let all = matrix.flows.len() as f64;
            let share = intra.len() as f64 / all;
            // Three standard deviations of a binomial share.
            assert!((share - 0.8).abs() < 3.0 * (0.16 / all).sqrt(), "{share} of {all}");
            for (flows, cdf) in [(&intra, &workload.intra), (&inter, &workload.inter)] {
                let sizes: Vec<Bytes> = flows.iter().map(|flow| flow.size).collect();
                let least = 1.63 / (sizes.len() as f64).sqrt();
                let distance = cdf.distance(sizes);
                assert!(distance < least, "load {load}: {distance} against {least}");
            }
            let capacity = Rate::from_gbps(100).bytes_in(Duration::from_ms(20)).0 * 256;
            let offered = matrix.total_bytes().0 as f64 / capacity as f64;
            assert!((offered / load - 1.0).abs() < 0.05, "{offered} of {load}");
        }
    }

    #[test]
    fn every_host_of_the_right_datacentre_is_a_destination() {
        let workload = published(0.4);
        let matrix = workload.generate(256, &mut Rng::new(7)).unwrap();
        let mut received = [[0u32; 256]; 2];
        for flow in &matrix.flows {
            received[workload.division.divide(256).unwrap().dc_of(flow.src.0)]
                [flow.dst.0 as usize] += 1;
        }
        // Chi squared against uniform within each of the four pairs of datacentres: mean n - 1,
        // standard deviation sqrt(2 n).
        for row in received {
            for range in [0..96, 96..256] {
                let counts = &row[range];
                let n = counts.len() as f64;
                let mean = counts.iter().sum::<u32>() as f64 / n;
                let chi: f64 = counts.iter().map(|&c| (f64::from(c) - mean).powi(2) / mean).sum();
                assert!((chi - n).abs() < 4.0 * (2.0 * n).sqrt(), "{chi} of {n}");
            }
        }
    }

    #[test]
    fn the_published_run_starts_within_a_millisecond_and_a_half() {
        let mut workload = published(0.4);
        (workload.arrivals.flows, workload.arrivals.duration) = (5000, Duration::MAX);
        let matrix = workload.generate(256, &mut Rng::new(1)).unwrap();
        assert_eq!(matrix.flows.len(), 5000);
        let last = match matrix.flows[4999].start {
            Start::At(at) => at.as_us_f64(),
            Start::On(_) => 0.0,
        };
        assert!((1350.0..1600.0).contains(&last), "{last}");
    }

    fn with(pairs: &[(&str, &str)]) -> Result<PoissonTwoDc, InputError> {
        PoissonTwoDc::from_params(&Params::from_pairs(pairs.iter().copied()))
    }

    const BOTH: [(&str, &str); 6] = [
        ("intra_load", "0.5"),
        ("intra_base", "800Gbps"),
        ("inter_load", "0.2"),
        ("inter_base", "100Gbps"),
        ("inter_cdf", "websearch"),
        ("link_rate", "25Gbps"),
    ];

    #[test]
    fn each_kind_has_the_load_of_its_own_base_in_datacentres_of_any_size() {
        let sizes = [("duration", "1s"), ("dc0_hosts", "64")];
        let workload = with(&[&BOTH[..], &sizes].concat()).unwrap();
        let matrix = workload.generate(192, &mut Rng::new(3)).unwrap();
        let hosts = workload.division.divide(192).unwrap();
        let mut offered = [[0.0; 2]; 2];
        for flow in &matrix.flows {
            let (from, to) = (hosts.dc_of(flow.src.0), hosts.dc_of(flow.dst.0));
            offered[from][usize::from(from != to)] += flow.size.as_f64() * 8e-9;
        }
        for [inside, across] in offered {
            assert!((inside / 400.0 - 1.0).abs() < 0.05, "{inside} Gb/s");
            assert!((across / 20.0 - 1.0).abs() < 0.15, "{across} Gb/s");
        }
    }

    #[test]
    fn a_host_alone_offers_only_what_flows_across_offer() {
        let with_loads = |inter| {
            let pairs = BOTH.map(|(key, old)| match key {
                "inter_load" => (key, inter),
                "intra_base" => (key, "20Gbps"),
                _ => (key, old),
            });
            let sizes = [("duration", "1s"), ("dc0_hosts", "1")];
            let workload = with(&[&pairs[..], &sizes].concat()).unwrap();
            let matrix = workload.generate(9, &mut Rng::new(3)).unwrap();
            let alone = matrix.flows.iter().filter(|flow| flow.src.0 == 0);
            alone.map(|flow| flow.size.as_f64() * 8e-9).sum::<f64>()
        };
        let offered = with_loads("0.1");
        assert!((offered / 10.0 - 1.0).abs() < 0.2, "{offered} Gb/s");
        assert!(with_loads("0").abs() < 1e-9);
    }

    #[test]
    fn loads_beyond_their_base_or_the_links_and_half_a_pair_are_refused() {
        let changed = |name: &str, value: &'static str| {
            let pairs = BOTH.map(|(key, old)| (key, if key == name { value } else { old }));
            with(&pairs).and_then(|workload| workload.generate(64, &mut Rng::new(1)))
        };
        assert!(changed("intra_load", "0.5").is_ok());
        for (name, value, words) in [
            (
                "intra_load",
                "1.01",
                "intra_load = `1.01`, expected a number in 0..=1\n  help: a load is",
            ),
            (
                "inter_load",
                "1.5",
                "inter_load = `1.5`, expected a number in 0..=1\n  help: a load is",
            ),
            ("inter_load", "-0.1", "inter_load = `-0.1`"),
            ("inter_base", "0Gbps", "inter_base = `0Gbps`"),
            ("intra_base", "1600Gbps", "25.625 Gb/s offered a host"),
        ] {
            let error = changed(name, value).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
            assert_eq!(
                error.contains("a share of its base"),
                words.contains("a load is"),
                "{error}"
            );
        }
        let missing = with(&BOTH[..3]).unwrap_err().to_string();
        assert!(missing.contains("intra_load without inter_base"), "{missing}");
        let both = with(&[&BOTH[..], &[("load", "0.5")]].concat()).unwrap_err().to_string();
        assert!(both.contains("load beside intra_load"), "{both}");
    }

    #[test]
    fn bases_beyond_what_the_network_has_are_refused_and_bases_of_all_it_has_are_not() {
        let refusal = |topology: &str, set: &[(&'static str, &'static str)]| {
            let network = crate::topology::by_name(topology).unwrap();
            let pairs = BOTH.iter().copied().filter(|(key, _)| set.iter().all(|(k, _)| k != key));
            let pairs: Vec<_> = pairs.chain(set.iter().copied()).collect();
            let checked = with(&pairs).unwrap().check(network.nodes, &network.capacities());
            checked.map_or_else(|error| error.to_string(), |()| String::new())
        };
        // Two sites of 128 hosts of 25 Gb/s, a link of 100 Gb/s.
        let (all, paper) = (("intra_base", "3200Gbps"), "two-dc-leaf");
        for (topology, set) in [
            (paper, &[all][..]),
            (paper, &[]),
            ("two-dc-leaf:1ms,100,2,8,3", &[("inter_base", "800Gbps"), ("inter_load", "0.1")]),
            // Bases of loads of zero are not used.
            (paper, &[("intra_base", "9999Gbps"), ("intra_load", "0")]),
            (paper, &[("inter_base", "9999Gbps"), ("inter_load", "0")]),
            // One site: hosts' links bound what crosses between its halves.
            ("leaf-spine:4,2,8", &[("inter_base", "1600Gbps")]),
            // These parts are not the network's sites, so not all flows across leave a site.
            (paper, &[("dc0_hosts", "20"), ("inter_base", "500Gbps")]),
            (paper, &[("dc0_hosts", "20"), ("intra_base", "5900Gbps"), ("intra_load", "0.05")]),
        ] {
            assert_eq!(refusal(topology, set), "", "{topology} {set:?}");
        }
        let (intra, inter) = (|base| ("intra_base", base), |base| ("inter_base", base));
        let of_one = "at most 3200.000Gbps: links of the hosts of the larger site, 128 of 25.000";
        for (topology, set, words) in [
            (paper, intra("3201Gbps"), of_one),
            (paper, inter("101Gbps"), "at most 100.000Gbps: links between the sites, 1 of 100.000"),
            ("two-dc-leaf:1ms,400,2,8,3", inter("801Gbps"), "smaller site, 32 of 25.000Gbps"),
            ("two-dc-leaf:1ms,100,1,8", intra("801Gbps"), "at most 800.000Gbps"),
            ("two-sites:8,1", intra("9Gbps"), "intra_base = 9.000Gbps, expected at most 8.0"),
            ("leaf-spine:4,2,8", inter("1601Gbps"), "at most 1600.000Gbps"),
        ] {
            let error = refusal(topology, &[set]);
            assert!(error.contains(words), "{set:?} {error}");
            assert!(error.contains("so that the load is a share of that"), "{set:?} {error}");
        }
        let both = [all, ("intra_load", "1"), ("link_rate", "100Gbps")];
        let error = refusal(paper, &both);
        assert!(error.contains("25.156 Gb/s offered a host, expected at most a host's"), "{error}");
    }

    #[test]
    fn all_or_nothing_may_stay() {
        for (share, crosses) in [(1.0, false), (0.0, true)] {
            let workload = PoissonTwoDc { intra_share: share, ..published(0.4) };
            let matrix = workload.generate(256, &mut Rng::new(1)).unwrap();
            let across = |flow: &FlowSpec| (flow.src.0 < 96) != (flow.dst.0 < 96);
            assert!(matrix.flows.iter().all(|flow| across(flow) == crosses));
        }
    }
}
