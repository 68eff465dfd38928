//! From a command line to a plan: reads the matrix or scenario, the topology and every setting.
//!
//! Later sources win: defaults, the transport's preset, the scenario, flags, `--set`.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use experiments::hosts_file::{HostsFile, SILENCE_S};
use experiments::input::{InputError, Located, Warning, did_you_mean, is_standard_input};
use experiments::observe::Observe;
use experiments::plan::{Draft, Origin, Plan, RunError, transports};
use experiments::scenario::{Scenario, Setup, TopologySource, Traffic};
use experiments::topology::{self, FatTreeSpec, topo_file};
use experiments::workload::{Matrix, cm};
use transport::Settings;
use transport::wire::KEY_LEN;

use super::idle;
use crate::args::{OnOff, RunArgs, World};
use crate::failure::Failure;
use crate::generate;
use crate::manifest::{Input, Setting};
use crate::observe;
use crate::on_dpdk::SharedKeys;
use crate::scenarios;

/// Everything that was read, put together.
#[derive(Debug)]
pub(crate) struct Experiment {
    /// The plan that runs.
    pub(crate) plan: Plan,
    /// The matrix: its file, or the scenario and generator that make it.
    pub(crate) matrix: String,
    /// The name of the run among several; `None` where the command line has one run.
    pub(crate) variant: Option<String>,
    /// The world in which it runs.
    pub(crate) world: World,
    /// The observations that are shown meanwhile.
    pub(crate) observe: Observe,
    /// Warnings of the inputs' readers.
    pub(crate) warnings: Vec<Warning>,
    /// Every file that was read.
    pub(crate) inputs: Vec<Input>,
    /// Every setting with its source.
    pub(crate) configuration: Vec<Setting>,
    /// The hosts of a real network, and the number of this one among them.
    pub(crate) real: Option<Real>,
}

/// A real network.
#[derive(Clone, Debug)]
pub(crate) struct Real {
    /// The hosts of the network.
    pub(crate) hosts: HostsFile,
    /// The number of this one.
    pub(crate) own: u32,
    /// The user has described its switches and links.
    pub(crate) topology_given: bool,
    /// The keys that seal packets, when they have been read.
    pub(crate) keys: Option<SharedKeys>,
}

/// The scenario that `input` names, a file or one that comes with the program; `None` when it names
/// a matrix.
///
/// # Errors
/// When there is none of that name, or it is wrong.
pub(crate) fn scenario(input: &Path) -> Result<Option<Scenario>, Failure> {
    Reader::default().scenario(input)
}

/// Refuses what cannot be seen in a real network: a series has the queues of all switches, and
/// every host's deliveries at the same instants.
fn check_real(draft: &Draft) -> Result<(), InputError> {
    let Some(interval) = draft.sampling else { return Ok(()) };
    let us = interval.as_us_f64();
    let found = format!("sampling every {us} us in a real network, whose queues no host sees");
    let error = InputError::new(found, "no sampling with --world nic");
    Err(error.at("sampling.interval", 0, 0).help("add --set sampling.interval=none"))
}

/// Flows on a real network survive the silence of a process that is started again, unless it is set
/// otherwise. A preset's own silence is for emulated networks, where none is started again.
fn survive_restarts(draft: &mut Draft) -> Result<(), InputError> {
    let origin = draft.origin("loss.give_up");
    if matches!(origin, Origin::Default | Origin::Transport(_)) {
        let survived = format!("{SILENCE_S}s");
        draft.set("loss.give_up", &survived, Origin::World(World::Nic.name()))?;
    }
    Ok(())
}

/// Refuses faults of links on a real network, which this program cannot make.
fn no_faults() -> InputError {
    let found = "faults of links in a real network, where nothing makes them";
    let error = InputError::new(found, "neither faults nor failures with --world nic");
    let help = "leave them out, and a topology that has some; or run them with --world sim or vdev";
    error.at("fault", 0, 0).help(help)
}

/// Refuses faults that nothing makes in `world`.
fn check_faults(plan: &Plan, world: World) -> Result<(), Failure> {
    if world == World::Nic && !plan.link_faults()?.is_empty() {
        return Err(no_faults().into());
    }
    if world != World::Sim && !plan.host_restarts().is_empty() {
        return Err(no_restarts(world).into());
    }
    Ok(())
}

/// Refuses hosts that begin anew where they are threads or processes, which nothing here restarts.
fn no_restarts(world: World) -> InputError {
    let found = format!("a host that begins anew with --world {}", world.name());
    let error = InputError::new(found, "--world sim, or a restart of a scheduler alone");
    let help = match world {
        World::Nic => "restart a process by hand, or run it with --world sim",
        World::Sim | World::Vdev => "run it with --world sim",
    };
    error.at("fault", 0, 0).help(help)
}

/// The inputs that have been read so far.
#[derive(Clone, Default)]
pub(super) struct Reader {
    warnings: Vec<Warning>,
    inputs: Vec<Input>,
    configuration: Vec<Setting>,
    topology: Option<(TopologySource, String)>,
    /// The name of the scenario in errors; empty for a matrix.
    pub(super) scenario_file: String,
}

impl Reader {
    /// The experiment: settings of a scenario of that name, then flags, then the traffic.
    pub(super) fn experiment(
        mut self,
        args: &RunArgs,
        scenario: Option<(&str, &Setup)>,
        traffic: &Traffic,
    ) -> Result<Experiment, Failure> {
        let mut draft = Draft::default();
        if let Some((name, setup)) = scenario {
            self.apply_scenario(name, setup, &mut draft)?;
        }
        self.apply_flags(args, &mut draft)?;
        if let Some((name, Setup { topology: Some(source), .. })) = scenario {
            self.topology = Some((source.clone(), Origin::scenario(name).to_string()));
        }
        if let Some(text) = &args.topo {
            let source = TopologySource::parse(text, Path::new(""))
                .map_err(|error| on_flag("--topo", error))?;
            self.topology = Some((source, "flag --topo".to_owned()));
        }
        if let Some((_, setup)) = scenario {
            setup.expect_files(&self.scenario_file, args.topo.is_none())?;
        }
        let (world, origin) = self.world(args, scenario)?;
        if world != World::Sim {
            draft.yield_to_frames(world.name());
        }
        if world == World::Nic {
            check_real(&draft).map_err(|error| draft.located(&error, &self.scenario_file))?;
        }
        let real = self.real(args, world, &draft)?;
        if let Some(port) = real.as_ref().and_then(|real| real.hosts.udp_port)
            && matches!(draft.origin("udp_port"), Origin::Default | Origin::Scenario(..))
        {
            draft.set("udp_port", &port.to_string(), Origin::HostsFile)?;
        }
        draft.sites = real.as_ref().map_or(1, |real| real.hosts.sites());
        real.as_ref().map_or(Ok(()), |real| draft.fit_real_pod(&real.hosts))?;
        if world == World::Nic {
            survive_restarts(&mut draft)?;
        }
        if world != World::Sim {
            // Real frames have their own sizes; simulated ones have the sizes of evaluations.
            draft.settings.key_bytes = KEY_LEN;
        }
        let (matrix, topology) = self.network(traffic, &draft, real.as_ref())?;
        real.as_ref().map_or(Ok(()), |real| real.hosts.check_matrix(matrix.nodes))?;
        let plan = Plan::new(&draft, matrix, &topology)
            .map_err(|error| self.located(error, (args, scenario, traffic), &draft))?;
        check_faults(&plan, world)?;
        self.warnings.extend(idle::warnings(args, world, &draft, &plan));
        self.finish(world, &origin, &plan.draft);
        let Self { warnings, inputs, configuration, .. } = self;
        let observe = observe::of_run(args)?;
        if world != World::Sim && observe.why {
            return Err(only_simulated(world).into());
        }
        let matrix = name_of(traffic, scenario.map(|(name, _)| name));
        Ok(Experiment {
            plan,
            matrix,
            variant: None,
            world,
            observe,
            warnings,
            inputs,
            configuration,
            real,
        })
    }

    /// The real network of `--world nic`. Without a topology, one switch joins its hosts, or the
    /// hosts of each site where they name two.
    fn real(
        &mut self,
        args: &RunArgs,
        world: World,
        draft: &Draft,
    ) -> Result<Option<Real>, InputError> {
        let missing = |flag: &str, expected: &str| {
            let help = "headrace run MATRIX.cm --world nic --hosts HOSTS.toml --host NAME";
            InputError::new(format!("no {flag}"), expected).at(flag, 0, 0).help(help)
        };
        if world != World::Nic {
            if let Some(text) = &args.security {
                let found = format!("`{text}` for --world {}", world.name());
                let error = InputError::new(found, "--world nic, or no --security");
                return Err(on_flag("--security", error));
            }
            return match &args.hosts {
                None => Ok(None),
                Some(path) => {
                    let found = format!("`{}` for --world {}", path.display(), world.name());
                    let error = InputError::new(found, "--world nic, or no hosts file");
                    Err(on_flag("--hosts", error))
                }
            };
        }
        let path = args.hosts.as_deref().ok_or_else(|| missing("--hosts", "a hosts file"))?;
        self.hash("hosts", path)?;
        let hosts = HostsFile::read_path(path)?;
        let name = args.host.as_deref().ok_or_else(|| missing("--host", "a name of that file"))?;
        let own = hosts.number_of(name).map_err(|error| on_flag("--host", error))?;
        let topology_given = self.topology.is_some();
        if !topology_given {
            let source = TopologySource::Builtin(assumed(&hosts, &draft.settings)?);
            self.topology = Some((source, "default for --world nic".to_owned()));
        }
        Ok(Some(Real { hosts, own, topology_given, keys: None }))
    }

    /// The world in which it runs, with the origin of the choice: virtual time unless a flag or the
    /// scenario says otherwise.
    fn world(
        &self,
        args: &RunArgs,
        scenario: Option<(&str, &Setup)>,
    ) -> Result<(World, String), InputError> {
        if let Some(world) = args.world {
            return Ok((world, "flag --world".to_owned()));
        }
        let Some((name, Setup { world: Some(text), .. })) = scenario else {
            return Ok((World::Sim, "default".to_owned()));
        };
        let world = World::by_name(&text.value).ok_or_else(|| {
            InputError::new(format!("world `{}`", text.value), "a world")
                .at(&self.scenario_file, text.line, text.column)
                .help(did_you_mean(&text.value, &World::NAMES))
        })?;
        Ok((world, Origin::scenario(name).to_string()))
    }

    /// The scenario that `input` names, `None` when it is a matrix.
    pub(super) fn scenario(&mut self, input: &Path) -> Result<Option<Scenario>, Failure> {
        let is = |ending: &str| {
            input
                .extension()
                .and_then(OsStr::to_str)
                .is_some_and(|e| e.eq_ignore_ascii_case(ending))
        };
        if is("toml") {
            self.hash("scenario", input)?;
            self.scenario_file = input.display().to_string();
            return Ok(Some(Scenario::read_path(input)?));
        }
        if is("cm") || is_standard_input(input) || input.exists() {
            return Ok(None);
        }
        let name = input.to_string_lossy();
        if let Some(known) = scenarios::by_name(&name) {
            self.scenario_file = known.file();
            return Ok(Some(known.read()?));
        }
        let names: Vec<&str> = scenarios::BUILT_IN.iter().map(|known| known.name).collect();
        let expected = "a file FILE.cm or FILE.toml, or a built-in scenario";
        let error = InputError::new(format!("`{name}`, which is no file"), expected);
        Err(error.at("command line", 0, 0).help(did_you_mean(&name, &names)).into())
    }

    /// The scenario of this text, which is or will be that of the file at `path`.
    pub(super) fn scenario_of(&mut self, path: &Path, text: &[u8]) -> Result<Scenario, Failure> {
        let name = path.display().to_string();
        let input = Input::of("scenario", path, text);
        self.inputs.push(input.map_err(|error| InputError::io(&name, &error))?);
        let scenario = Scenario::read(text, &name, path.parent().unwrap_or(Path::new(".")))?;
        self.scenario_file = name;
        Ok(scenario)
    }

    pub(super) fn apply_scenario(
        &self,
        name: &str,
        scenario: &Setup,
        draft: &mut Draft,
    ) -> Result<(), Failure> {
        let (name, file) = (name.to_owned(), self.scenario_file.clone());
        let source = |line, column| Origin::Scenario(Located { value: name.clone(), line, column });
        let of = |value: &Located<String>| source(value.line, value.column);
        let at = |located: &Located<String>, error: InputError| {
            error.at(&file, located.line, located.column)
        };
        if let Some(name) = &scenario.transport {
            draft
                .set_transport(&name.value, of(name))
                .map_err(|error| at(name, no_transport(&name.value, error)))?;
        }
        if let Some(name) = &scenario.cc {
            draft.set_cc(&name.value, of(name)).map_err(|error| at(name, error))?;
        }
        if let Some(name) = &scenario.lb {
            draft.set_lb(&name.value, of(name)).map_err(|error| at(name, error))?;
        }
        if let Some(text) = &scenario.ec {
            draft.set_ec(&text.value, of(text)).map_err(|error| at(text, error))?;
        }
        if let Some(trim) = &scenario.trim {
            draft.set_trim(trim.value, source(trim.line, trim.column));
        }
        if let Some(seed) = scenario.seed {
            draft.set_seed(seed, source(0, 0));
        }
        if let Some(interval) = &scenario.sampling {
            draft.set_sampling(interval.value, source(interval.line, interval.column));
        }
        for fault in &scenario.faults {
            draft.add_fault(fault.value, source(fault.line, fault.column));
        }
        for setting in &scenario.settings {
            let value = &setting.value;
            draft.set(&setting.key, &value.value, of(value)).map_err(|error| at(value, error))?;
        }
        Ok(())
    }

    pub(super) fn apply_flags(&self, args: &RunArgs, draft: &mut Draft) -> Result<(), Failure> {
        if let Some(name) = &args.policies.transport {
            let set = draft.set_transport(name, Origin::Flag("transport"));
            set.map_err(|error| on_flag("--transport", no_transport(name, error)))?;
        }
        if let Some(name) = &args.policies.cc {
            draft.set_cc(name, Origin::Flag("cc")).map_err(|error| on_flag("--cc", error))?;
        }
        if let Some(name) = &args.policies.lb {
            draft.set_lb(name, Origin::Flag("lb")).map_err(|error| on_flag("--lb", error))?;
        }
        if let Some(text) = &args.ec {
            draft.set_ec(text, Origin::Flag("ec")).map_err(|error| on_flag("--ec", error))?;
        }
        if let Some(trim) = args.trim {
            draft.set_trim(trim == OnOff::On, Origin::Flag("trim"));
        }
        if let Some(seed) = args.seed.as_ref().and_then(|seeds| seeds.0.first()) {
            draft.set_seed(*seed, Origin::Flag("seed"));
        }
        if let Some(threads) = args.threads {
            draft.set_threads(threads.into(), Origin::Flag("threads"));
        }
        if let Some(port) = args.udp_port {
            draft.set("udp_port", &port.to_string(), Origin::Flag("udp-port"))?;
        }
        for (key, value) in args.policies.settings()? {
            draft.set(key, value, Origin::Set).map_err(|error| on_flag("--set", error))?;
        }
        Ok(())
    }

    /// Reads the traffic and the network; without a topology, the smallest built-in one that holds
    /// the traffic.
    fn network(
        &mut self,
        traffic: &Traffic,
        draft: &Draft,
        real: Option<&Real>,
    ) -> Result<(Matrix, FatTreeSpec), Failure> {
        let chosen = match &self.topology {
            None => None,
            Some((TopologySource::File(path), _)) => {
                let path = path.clone();
                self.hash("topology", &path)?;
                Some(TopologySource::File(path).load()?)
            }
            Some((source, _)) => Some(source.load()?),
        };
        let hosts = chosen.as_ref().map_or(HOSTS_DEFAULT, |tree| tree.nodes);
        // The speeds of a real network are assumed where it has no topology.
        let is_known = real.is_none_or(|real| real.topology_given);
        let check = |network| if is_known { traffic.check(network) } else { Ok(()) };
        chosen.as_ref().map_or(Ok(()), check)?;
        let mut rng = generate::rng(draft.seed);
        let (matrix, warnings) = traffic.matrix(hosts, draft.start_unit, &mut rng)?;
        if let Traffic::File(path) = traffic {
            self.hash("matrix", path)?;
        }
        self.warnings.extend(warnings);
        let topology = match chosen {
            Some(tree) => tree,
            None => {
                let source = TopologySource::Builtin(smallest_for(matrix.nodes)?.to_owned());
                let tree = source.load()?;
                // The number of hosts chooses this network, so the matrix comes first here.
                check(&tree)?;
                self.topology = Some((source, format!("default for {} hosts", matrix.nodes)));
                tree
            }
        };
        Ok((matrix, topology))
    }

    /// The error of a plan with its place: the line in the file of the matrix or of the topology,
    /// or the line of the scenario that names the number, the network or the setting.
    fn located(
        &self,
        error: RunError,
        (args, scenario, traffic): (&RunArgs, Option<(&str, &Setup)>, &Traffic),
        draft: &Draft,
    ) -> RunError {
        let file = &self.scenario_file;
        let in_file = |input: &InputError, path: &Path, line: u32| {
            input.clone().at(&path.display().to_string(), line, 0)
        };
        let located = match (&error, traffic, &self.topology) {
            (RunError::Matrix(line, input), Traffic::File(path), _) => {
                let Some(line) = cm::line_of(path, *line) else { return error };
                in_file(input, path, line)
            }
            (
                RunError::Matrix(cm::MatrixLine::Nodes, input),
                Traffic::Workload { nodes, .. },
                _,
            ) => {
                let Some(Located { line, column, .. }) = *nodes else { return error };
                (**input).clone().at(file, line, column)
            }
            (RunError::Topology(tier, key, input), _, Some((TopologySource::File(path), _))) => {
                // A number that the file leaves out has no line.
                in_file(input, path, topo_file::line_of(path, *tier, key).unwrap_or(0))
            }
            (RunError::Topology(_, _, input), ..) if input.file == "topology" => {
                let place = scenario.map_or((0, 0), |(_, setup)| setup.places[1]);
                match place {
                    _ if args.topo.is_some() => (**input).clone().at("--topo", 0, 0),
                    (0, _) => return error,
                    (line, column) => (**input).clone().at(file, line, column),
                }
            }
            (RunError::OfFault(fault, input), ..) => draft.located_fault(fault, input, file),
            (RunError::Input(input), ..) if input.line == 0 => draft.located(input, file),
            _ => return error,
        };
        located.into()
    }

    fn finish(&mut self, world: World, origin: &str, draft: &Draft) {
        self.add("world", world.name().to_owned(), origin);
        if let Some((source, origin)) = self.topology.take() {
            self.add("topology", source.to_string(), &origin);
        }
        for (key, value, source) in draft.effective() {
            self.add(&key, value, &source.to_string());
        }
    }

    fn add(&mut self, key: &str, value: String, source: &str) {
        let (key, source) = (key.to_owned(), source.to_owned());
        self.configuration.push(Setting { key, value, source });
    }

    fn hash(&mut self, role: &'static str, path: &Path) -> Result<(), InputError> {
        let name = path.display().to_string();
        // A pipe can be read once only, and a hash would use it up.
        if is_standard_input(path) || fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
            return Ok(());
        }
        let input = Input::hash(role, path).map_err(|error| InputError::io(&name, &error))?;
        self.inputs.push(input);
        Ok(())
    }
}

/// Refuses to explain runs in real time: only in virtual time every wait is known.
fn only_simulated(world: World) -> InputError {
    let found = format!("--why with --world {}", world.name());
    let error = InputError::new(found, "--world sim, where every wait is known");
    error.at("--why", 0, 0).help("leave it out, or run the same in virtual time")
}

/// What the traffic of a run is called in its results.
fn name_of(traffic: &Traffic, scenario: Option<&str>) -> String {
    let scenario = scenario.unwrap_or_default();
    match traffic {
        Traffic::File(path) if is_standard_input(path) => "standard input".to_owned(),
        Traffic::File(path) => path.display().to_string(),
        Traffic::Inside(_) => format!("that of scenario {scenario}"),
        Traffic::Workload { kind, .. } => format!("{kind} of scenario {scenario}"),
    }
}

/// The name of the network that hosts of a real network are assumed to have: one of their sites,
/// where the file names two in its order. Other sites are refused where flows need border switches,
/// and count as one switch elsewhere. Hosts that depart in slots are one pod.
fn assumed(hosts: &HostsFile, settings: &Settings) -> Result<String, InputError> {
    let cc = settings.far.cc.unwrap_or(settings.cc);
    let needs_borders = settings.follows_borders(cc);
    if needs_borders {
        hosts.check_sited()?;
    }
    match hosts.of_first_site() {
        Err(error) if needs_borders => Err(error),
        Ok(Some(first)) if !settings.sched.facts().departs_in_slots => {
            Ok(format!("two-sites:{first}"))
        }
        _ => Ok(format!("leaf-spine:1,1,{}", hosts.hosts.len())),
    }
}

/// Hosts of generated traffic by default.
const HOSTS_DEFAULT: u32 = 16;

/// The built-in networks without oversubscription, by the hosts they hold.
/// The first two are as many as DPDK has devices for.
const BY_HOSTS: [(u32, &str); 5] = [
    (16, "paper-testbed"),
    (32, "leaf-spine:8,4,4,100"),
    (128, "ft128-1os"),
    (1024, "ft1024-1os"),
    (8192, "ft8192-1os"),
];

fn smallest_for(hosts: u32) -> Result<&'static str, InputError> {
    let fits = BY_HOSTS.iter().find(|(count, _)| *count >= hosts);
    fits.map(|(_, name)| *name).ok_or_else(|| {
        InputError::new(format!("traffic of {hosts} hosts"), "at most 8192 without --topo")
            .at("--topo", 0, 0)
            .help("name a network that large: --topo leaf-spine:LEAVES,SPINES,HOSTS_PER_LEAF")
    })
}

/// The error about a transport that does not exist. Where its name is that of a topology, the help
/// says so.
fn no_transport(name: &str, error: InputError) -> InputError {
    let head = name.split(':').next().unwrap_or(name);
    let Some(network) = topology::networks().find(|network| network.name == head) else {
        return error;
    };
    let fits = transports::names().into_iter().find(|transport| head.starts_with(transport));
    let beside = fits.map_or("another transport".to_owned(), |fits| format!("transport {fits}"));
    error.help(format!(
        "that is a topology: --topo {} (in a scenario, `topology`), with {beside}",
        network.pattern()
    ))
}

/// The error as one about a flag.
pub(super) fn on_flag(flag: &str, error: InputError) -> InputError {
    if error.file.is_empty() { error.at(flag, 0, 0) } else { error }
}
