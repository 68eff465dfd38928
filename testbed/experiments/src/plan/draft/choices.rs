//! How a draft is filled and read: presets, policies by name, settings by key, facts of the
//! network.

use transport::cc::CcKind;
use transport::ec::EcParams;
use transport::lb::LbKind;
use transport::path::NetworkFacts;
use transport::{Duration, Settings};

use super::{Draft, Origin, Stamping};
use crate::input::{InputError, did_you_mean};
use crate::plan::transports::{self, Transport};
use crate::plan::{keys, policy_keys};
use crate::scenario::FaultSpec;

impl Draft {
    pub(super) fn apply_preset(&mut self, preset: &'static Transport) {
        for (key, _) in self.transport.set() {
            if let (Origin::Transport(_), Some(value)) = (self.origin(key), keys::default_of(key)) {
                self.set_checked(key, &value);
                self.origins.remove(key);
            }
        }
        self.transport = preset;
        self.settings.cc = preset.cc;
        self.settings.lb = preset.lb;
        self.settings.sched = preset.sched;
        self.trim = preset.trim;
        let parts = ["cc", "lb", "sched", "trim"];
        for key in parts.into_iter().chain(preset.set().map(|(key, _)| key)) {
            self.origins.insert(key.to_owned(), Origin::Transport(preset.name));
        }
        for (key, value) in preset.set() {
            self.set_checked(key, value);
        }
    }

    /// Sets a value that this crate itself chooses; a test checks that all of these are legal.
    fn set_checked(&mut self, key: &str, value: &str) {
        let set = keys::set(self, key, value);
        debug_assert!(set.is_ok(), "{key}={value}: {set:?}");
    }

    /// Chooses the preset called `name`.
    ///
    /// # Errors
    /// When there is none, with the nearest name.
    pub fn set_transport(&mut self, name: &str, origin: Origin) -> Result<(), InputError> {
        let name = origin.meant(name, &transports::names());
        let preset = transports::by_name(name)
            .ok_or_else(|| unknown("transport", name, &transports::names()))?;
        self.apply_preset(preset);
        self.origins.insert("transport".to_owned(), origin);
        Ok(())
    }

    /// Chooses the controller called `name`.
    ///
    /// # Errors
    /// As [`Draft::set_transport`].
    pub fn set_cc(&mut self, name: &str, origin: Origin) -> Result<(), InputError> {
        let name = origin.meant(name, CcKind::NAMES);
        self.settings.cc = CcKind::by_name(name)
            .ok_or_else(|| unknown("congestion control", name, CcKind::NAMES))?;
        self.origins.insert("cc".to_owned(), origin);
        Ok(())
    }

    /// Chooses the load balancer called `name`.
    ///
    /// # Errors
    /// As [`Draft::set_transport`].
    pub fn set_lb(&mut self, name: &str, origin: Origin) -> Result<(), InputError> {
        let name = origin.meant(name, LbKind::NAMES);
        self.settings.lb =
            LbKind::by_name(name).ok_or_else(|| unknown("load balancer", name, LbKind::NAMES))?;
        self.origins.insert("lb".to_owned(), origin);
        Ok(())
    }

    /// Chooses the erasure code: `X,Y`, `auto` or `off`.
    ///
    /// # Errors
    /// For anything else.
    pub fn set_ec(&mut self, text: &str, origin: Origin) -> Result<(), InputError> {
        self.set("ec", text, origin)
    }

    /// Sets the switches that write telemetry. Where some are named, packets of all flows have room
    /// for it.
    pub(in crate::plan) fn set_stamping(&mut self, stamping: Stamping) {
        self.settings.int_always = matches!(stamping, Stamping::At(_));
        self.stamping = stamping;
    }

    /// Sets whether switches trim.
    pub fn set_trim(&mut self, trim: bool, origin: Origin) {
        self.trim = trim;
        self.origins.insert("trim".to_owned(), origin);
    }

    /// Sets a value that this crate itself chooses, by `origin`.
    pub(in crate::plan) fn choose(&mut self, key: &str, value: &str, origin: Origin) {
        self.set_checked(key, value);
        self.origins.insert(key.to_owned(), origin);
    }

    /// Sets the root of all chance.
    pub fn set_seed(&mut self, seed: u64, origin: Origin) {
        self.seed = seed;
        self.origins.insert("seed".to_owned(), origin);
    }

    /// Sets how many threads run a simulation.
    pub fn set_threads(&mut self, threads: usize, origin: Origin) {
        self.threads = threads;
        self.origins.insert("sim.threads".to_owned(), origin);
    }

    /// Sets the time between samples.
    pub fn set_sampling(&mut self, interval: Duration, origin: Origin) {
        self.sampling = Some(interval);
        self.origins.insert("sampling.interval".to_owned(), origin);
    }

    /// Sets a dotted key from text.
    ///
    /// # Errors
    /// When there is no such key, with the nearest one, or the value is none of its values.
    pub fn set(&mut self, key: &str, value: &str, origin: Origin) -> Result<(), InputError> {
        keys::set(self, key, value)?;
        self.written.insert(keys::canonical(key).to_owned(), key.to_owned());
        self.fault_origins.resize(self.faults.len(), origin.clone());
        if let Some(count) = keys::count_of(keys::canonical(key)) {
            self.choose(count, "0", origin.clone());
        }
        self.origins.insert(keys::canonical(key).to_owned(), origin);
        Ok(())
    }

    /// Adds a fault.
    pub fn add_fault(&mut self, fault: FaultSpec, origin: Origin) {
        self.faults.push(fault);
        self.fault_origins.push(origin);
    }

    /// This draft with the faults that a network has from the start, before all others.
    ///
    /// # Errors
    /// When one of them is no fault.
    pub(crate) fn with_faults_of_network(&self, faults: &[&str]) -> Result<Self, InputError> {
        let mut draft = self.clone();
        for (place, fault) in faults.iter().enumerate() {
            draft.faults.insert(place, fault.parse()?);
            draft.fault_origins.insert(place, Origin::Topology);
        }
        Ok(draft)
    }

    /// Sets what policies take over from the network unless it was set: `intra`, the base RTT
    /// between the farthest hosts of a site, and `inter`, that across sites, equal where there is
    /// only one.
    /// `known` is what else is known of it.
    pub fn fit_to(&mut self, intra: Duration, inter: Duration, known: &NetworkFacts) {
        // Settings are text of whole nanoseconds.
        let whole = |span: Duration| Duration::from_ns(span.as_ps().div_ceil(1000));
        let (site, inter) = (whole(intra), whole(inter));
        let far = if inter > site { whole(intra + Duration::from_ns(1)) } else { FAR_NOWHERE };
        let is_network = |origin| matches!(origin, Origin::Default | Origin::Topology);
        if is_network(self.origin("far.rtt"))
            && far < inter
            && self.settings.far.cc.is_some_and(CcKind::follows_borders)
        {
            // Flows across follow border switches however near the sites are.
            self.settings.far.rtt = far;
            self.origins.insert("far.rtt".to_owned(), Origin::Topology);
        }
        self.fit_ack_delay((inter > site).then(|| whole(intra / 4)));
        let facts = NetworkFacts {
            site_rtt: Some(site),
            inter_rtt: Some(inter),
            far_rtt: Some(far),
            propagation_rtt: known.propagation_rtt.map(whole),
            loop_rtt: known.loop_rtt.map(whole),
            ..*known
        };
        for (key, value) in policy_keys::resolved(self, &facts) {
            let given = !is_network(self.origin(&key));
            if !(given && policy_keys::is_set(self, &key)) && keys::set(self, &key, &value).is_ok()
            {
                self.origins.insert(key, Origin::Topology);
            }
        }
    }

    /// A receiver does not measure how far its senders are. A quarter of a round trip across would
    /// be many round trips of the senders of its own site. Where there are both, acknowledgements
    /// wait for `near`, a quarter of a round trip in the site, unless their wait was set.
    fn fit_ack_delay(&mut self, near: Option<Duration>) {
        if !matches!(self.origin("ack_delay"), Origin::Default | Origin::Topology) {
            return;
        }
        let near = near.filter(|_| self.settings.ack_every > 1);
        self.settings.ack_delay = near;
        match near {
            Some(_) => self.origins.insert("ack_delay".to_owned(), Origin::Topology),
            None => self.origins.remove("ack_delay"),
        };
    }

    /// Takes back the sizes of simulated frames that the preset chose: frames of `world` have their
    /// own. Where hosts send in slots, switches count the sizes of a simulation, which stay.
    pub fn yield_to_frames(&mut self, world: &'static str) {
        if self.settings.sched.facts().departs_in_slots {
            return;
        }
        self.take_back(&["wire.data_overhead", "wire.control", "wire.data_min"], world);
    }

    /// Puts settings that the preset chose, and `world` cannot have, back to their defaults.
    pub(in crate::plan) fn take_back(&mut self, settings: &[&str], world: &'static str) {
        for key in settings {
            if let (Origin::Transport(_), Some(value)) = (self.origin(key), keys::default_of(key)) {
                self.choose(key, &value, Origin::World(world));
            }
        }
    }

    /// Checks that no setting is set that only a simulation can obey: the lengths of real frames
    /// and the readings of real clocks cannot be chosen.
    ///
    /// # Errors
    /// Names the first setting of a simulation that is not at its default.
    pub fn check_real_world(&self) -> Result<(), InputError> {
        self.check_simulated(true)
    }

    /// [`Draft::check_real_world`] for emulated switches between real hosts: where hosts send in
    /// slots, the switches count packets as long as a simulation does.
    ///
    /// # Errors
    /// As [`Draft::check_real_world`].
    pub fn check_soft_switch(&self) -> Result<(), InputError> {
        self.check_simulated(!self.settings.sched.facts().departs_in_slots)
    }

    /// Checks that the transport is one that hosts can run.
    ///
    /// # Errors
    /// Names a transport that is computed.
    pub fn check_sends(&self) -> Result<(), InputError> {
        if !self.transport.is_ideal() {
            return Ok(());
        }
        let found = format!("`ideal` by {}, which no host can run", self.origin("transport"));
        let error = InputError::new(found, "a transport that sends packets");
        Err(error.at("transport", 0, 0).help("choose another, or use --world sim"))
    }

    /// Checks that two hosts and a link between them are all that the transport needs.
    ///
    /// # Errors
    /// Names a scheduler that works with a network.
    pub(in crate::plan) fn check_on_link(&self) -> Result<(), InputError> {
        let sched = self.settings.sched;
        if !sched.facts().needs_network {
            return Ok(());
        }
        let (name, origin) = (sched.name(), self.origin("sched"));
        let found = format!("`{name}` by {origin}, which needs a network that works with it");
        let error = InputError::new(found, "a scheduler for two hosts and a link between them");
        let help = "choose another transport, or use `headrace run` with `--world nic`";
        Err(error.at("sched", 0, 0).help(help))
    }

    fn check_simulated(&self, with_sizes: bool) -> Result<(), InputError> {
        self.check_sends()?;
        let (sizes, clocks) = (&self.settings.accounted, &self.clocks);
        let simulated = [
            ("wire.data_overhead", with_sizes && sizes.data_overhead.is_some()),
            ("wire.control", with_sizes && sizes.control.is_some()),
            ("wire.data_min", with_sizes && sizes.data_min > 0),
            ("host.offset", clocks.offset > Duration::ZERO),
            ("host.drift_ppm", clocks.drift_ppm > 0.0),
            ("host.jitter", clocks.jitter > Duration::ZERO),
        ];
        let Some((key, _)) = simulated.into_iter().find(|(_, set)| *set) else { return Ok(()) };
        let value = keys::show(self, key).unwrap_or_default();
        let default = keys::default_of(key).unwrap_or_default();
        let found = format!("`{value}` by {}", self.origin(key));
        let expected = format!("`{default}` in a world with real frames and clocks");
        let help = "leave it out, or run it with --world sim";
        Err(InputError::new(found, expected).at(key, 0, 0).help(help))
    }

    /// The settings with the policies' parameters as they act: none waits for trims where switches
    /// do not trim.
    #[must_use]
    pub fn acting(&self) -> Settings {
        let mut settings = self.settings.clone();
        settings.resolve(&self.switch_facts());
        settings
    }

    /// The settings of coded flows as they act: no block takes less time than the world needs.
    pub(in crate::plan) fn ec_params(&self) -> EcParams {
        let least = self.block_timeout_min;
        let ec = self.settings.ec_params;
        if ec.patience() < least { EcParams { block_timeout: Some(least), ..ec } } else { ec }
    }

    fn switch_facts(&self) -> NetworkFacts {
        NetworkFacts { trims: Some(self.trim), ..NetworkFacts::default() }
    }

    /// The origin of the value of `key`.
    #[must_use]
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or(Origin::Default)
    }

    /// Whether a setting was given by the user.
    pub(in crate::plan) fn is_given(&self, key: &str) -> bool {
        !matches!(self.origin(key), Origin::Default | Origin::Topology | Origin::Transport(_))
    }

    /// The name of the setting `key` for messages: as it was written when it was set, else its
    /// second name, the one in documents.
    #[must_use]
    pub fn written<'a>(&'a self, key: &'a str) -> &'a str {
        self.written.get(key).map_or(keys::familiar(key), String::as_str)
    }

    /// An error about a setting, which is its place. Where the scenario in `file` set it, the place
    /// becomes that of the value. Elsewhere it is the setting's name as it was written, or the
    /// origin of the value where the name is part of what was found.
    #[must_use]
    pub fn located(&self, error: &InputError, file: &str) -> InputError {
        let (error, key) = (error.clone(), keys::canonical(&error.file));
        let (written, origin) = (self.written(key), self.origin(key));
        let is_named = error.found.starts_with(&format!("`{written}="));
        match origin {
            Origin::Scenario(at) if at.line > 0 => {
                let found = format!("{written}: {}", error.found);
                let found = if is_named { error.found } else { found };
                InputError { found, ..error }.at(file, at.line, at.column)
            }
            origin if is_named && origin != Origin::Default => error.at(&origin.to_string(), 0, 0),
            _ => error.at(written, 0, 0),
        }
    }

    /// Every setting with its value as text and its origin, in the order of the key table, then
    /// those of the chosen controller and balancer. Each fault has a line of its own.
    #[must_use]
    pub fn effective(&self) -> Vec<(String, String, Origin)> {
        let mut all = vec![
            ("transport", self.transport.name.to_owned()),
            ("cc", self.settings.cc.name().to_owned()),
            ("lb", self.settings.lb.name().to_owned()),
            ("trim", (if self.trim { "on" } else { "off" }).to_owned()),
            ("seed", self.seed.to_string()),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect::<Vec<_>>();
        all.extend(keys::effective(self));
        let by_trim = policy_keys::resolved(self, &self.switch_facts());
        let sourced = |(key, value): (String, String)| match key.as_str() {
            "fault" if !self.faults.is_empty() => {
                let faults = self.faults.iter().zip(&self.fault_origins);
                faults.map(|(f, origin)| (key.clone(), f.to_string(), origin.clone())).collect()
            }
            _ if by_trim.iter().any(|(changed, _)| *changed == key) => {
                vec![(key, value, self.origin("trim"))]
            }
            _ => {
                let origin = self.origin(&key);
                vec![(key, value, origin)]
            }
        };
        all.into_iter().flat_map(sourced).collect()
    }
}

/// The threshold that no base RTT reaches, where no other site is.
const FAR_NOWHERE: Duration = Duration::from_s(2);

fn unknown(what: &str, name: &str, known: &[&str]) -> InputError {
    InputError::new(format!("{what} `{name}`"), format!("a known {what}"))
        .help(did_you_mean(name, known))
}
