//! Starting the binary, listening to it, ending it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// A process that has not said "ready" or ended by then hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// A namespace in which this process may mount something.
pub(crate) const SMALL_VOLUME: &[&str] = &["unshare", "--mount", "--map-root-user"];

/// Whether this machine lets us have such a namespace. Some let only root, and containers often nobody: what
/// needs one is then left out, and says so.
pub(crate) fn namespace_is_allowed(unshare: &[&str]) -> bool {
    let inside = if unshare == SMALL_VOLUME { "mount -t tmpfs volume /mnt" } else { "true" };
    let status = Command::new(unshare[0]).args(&unshare[1..]).args(["sh", "-c", inside]).status();
    let is_allowed = status.is_ok_and(|status| status.success());
    if !is_allowed {
        eprintln!("LEFT OUT: this machine does not allow `{}`", unshare.join(" "));
    }
    is_allowed
}

/// How a process ended, and everything that it said on stderr.
#[derive(Debug)]
pub(crate) struct Ended {
    /// None: by a signal.
    pub(crate) code: Option<i32>,
    pub(crate) stderr: String,
}

impl Ended {
    /// The last words.
    pub(crate) fn last_line(&self) -> &str {
        self.stderr.lines().last().unwrap_or_default()
    }
}

/// A running server.
pub(crate) struct Server {
    child: Option<Child>,
    stderr: Option<JoinHandle<String>>,
    /// What it says on stdout from now on.
    said: mpsc::Receiver<String>,
    /// `127.0.0.1:port`.
    pub(crate) api: String,
    metrics: String,
}

/// A way to start the binary.
pub(crate) struct Start {
    arguments: Vec<String>,
    yaml: String,
    /// A command that ends by becoming the server.
    within: Vec<String>,
}

impl Start {
    /// `dex-server-zd dev` in this directory, on a port of its own.
    pub(crate) fn dev(data_dir: &Path) -> Self {
        Self::profile("dev", data_dir)
    }

    /// `dex-server-zd PROFILE` in this directory, on a port of its own. The default address for metrics
    /// of `local` may be taken by whatever else runs on this machine.
    pub(crate) fn profile(profile: &str, data_dir: &Path) -> Self {
        let yaml = match profile {
            "local" => "metrics: {listen: '127.0.0.1:0'}\n",
            _ => "",
        };
        let start = Self { arguments: vec![profile.to_owned()], yaml: yaml.to_owned(), within: Vec::new() };
        start.with(&["--data-dir", data_dir.to_str().expect("a plain path")])
    }

    /// `dex-server-zd serve` with the volume `data_dir`, on a folder that it shares with others of the node.
    pub(crate) fn serve(data_dir: &Path, store: &Path) -> Self {
        Self::serve_on(data_dir, &format!("objectStorage: {{kind: folder, path: {store:?}}}\n"))
    }

    /// The same on whatever store this section of the configuration names.
    pub(crate) fn serve_on(data_dir: &Path, object_storage: &str) -> Self {
        let yaml = format!("nodeId: pair\n{object_storage}metrics: {{listen: '127.0.0.1:0'}}\n");
        Self { yaml, ..Self::profile("serve", data_dir) }
    }

    /// Further arguments.
    pub(crate) fn with(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    /// With this in the configuration file, which lies beside the data directory.
    pub(crate) fn config(mut self, yaml: &str) -> Self {
        self.yaml.push_str(yaml);
        self
    }

    /// With this in place of that in the configuration file.
    pub(crate) fn replacing(mut self, old: &str, new: &str) -> Self {
        assert!(self.yaml.contains(old), "{old} is not in {}", self.yaml);
        self.yaml = self.yaml.replace(old, new);
        self
    }

    /// A write beyond a limit on the file size is an error and no signal, as on a full disk.
    pub(crate) fn ignoring_file_size_signal(self) -> Self {
        self.within(&["sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
    }

    /// With the data directory on a volume of so many bytes, which goes away with the process and is empty at
    /// each start. Nobody else sees it, so no privileges are needed where people may have namespaces.
    pub(crate) fn on_small_volume(self, megabytes: u32) -> Self {
        let folder = self.arguments[2].clone();
        std::fs::create_dir_all(&folder).expect("a folder to mount on");
        let mount = format!("mount -t tmpfs -o size={megabytes}m volume '{folder}' && exec \"$0\" \"$@\"");
        self.within(&[SMALL_VOLUME, &["sh", "-c", &mount]].concat())
    }

    /// Started by this command, to whose arguments those of the server are added.
    pub(crate) fn within(mut self, command: &[&str]) -> Self {
        self.within = command.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Until it is ready.
    pub(crate) fn ready(self) -> Server {
        let port = free_port();
        self.ready_at(&format!("127.0.0.1:{port}"))
    }

    /// Until it is ready on this address.
    pub(crate) fn ready_at(self, api: &str) -> Server {
        self.saying("ready", api)
    }

    /// Until it stands by on this address.
    pub(crate) fn standing_by_at(self, api: &str) -> Server {
        self.saying("standby", api)
    }

    fn saying(self, word: &str, api: &str) -> Server {
        match self.with(&["--listen", api]).spawn(word) {
            Ok(server) => server,
            Err(ended) => panic!("the server did not start: {ended:?}"),
        }
    }

    /// Until it has refused to start.
    pub(crate) fn refused(self) -> Ended {
        let listen = if self.arguments.iter().any(|argument| argument == "--listen") {
            Vec::new()
        } else {
            vec!["--listen", "127.0.0.1:0"]
        };
        match self.with(&listen).spawn("ready") {
            Ok(server) => panic!("it started, on {}", server.api),
            Err(ended) => ended,
        }
    }

    fn command(&self) -> Command {
        let binary = env!("CARGO_BIN_EXE_dex-server-zd");
        let Some((program, arguments)) = self.within.split_first() else {
            return Command::new(binary);
        };
        let mut command = Command::new(program);
        command.args(arguments).arg(binary);
        command
    }

    fn spawn(mut self, word: &str) -> Result<Server, Ended> {
        if !self.yaml.is_empty() {
            let path = PathBuf::from(&self.arguments[2]).with_extension("yaml");
            std::fs::write(&path, &self.yaml).expect("the parent exists");
            self = self.with(&["--config", path.to_str().expect("a plain path")]);
        }
        let mut child = self
            .command()
            .args(&self.arguments)
            .env("DEX_LOG", "info")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary was built");
        let stdout = child.stdout.take().expect("piped");
        let mut pipe = child.stderr.take().expect("piped");
        let stderr = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = pipe.read_to_string(&mut text);
            text
        });
        let (say, said) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = say.send(line);
            }
        });
        let (api, metrics) = (String::new(), String::new());
        let mut server = Server { child: Some(child), stderr: Some(stderr), said, api, metrics };
        loop {
            match server.said.recv_timeout(PATIENCE) {
                Ok(line) if line.split(' ').next() == Some(word) => {
                    server.api = field(&line, "api=");
                    server.metrics = field(&line, "metrics=http://").replace("/metrics", "");
                    return Ok(server);
                }
                Ok(_) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(server.wait()),
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    panic!("neither {word} nor ended: {:?}", server.kill())
                }
            }
        }
    }
}

fn field(line: &str, name: &str) -> String {
    let found = line.split_whitespace().find_map(|word| word.strip_prefix(name));
    found.unwrap_or_else(|| panic!("no {name} in {line:?}")).to_owned()
}

impl Server {
    fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().expect("not ended"))
    }

    /// The first word of the next line on stdout, which tells a role.
    pub(crate) fn next_word(&self) -> String {
        let line = self.said.recv_timeout(PATIENCE).expect("it runs and says something");
        line.split_whitespace().next().unwrap_or_default().to_owned()
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) -> Ended {
        self.signal(Signal::KILL);
        self.wait()
    }

    /// SIGTERM, and the end that follows.
    pub(crate) fn terminate(mut self) -> Ended {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// One signal.
    pub(crate) fn signal(&mut self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it runs");
    }

    /// SIGSTOP, until every thread of it has stopped.
    pub(crate) fn freeze(&mut self) {
        self.signal(Signal::STOP);
        let tasks = format!("/proc/{}/task", self.pid().as_raw_nonzero());
        let is_stopped = |task: std::io::Result<std::fs::DirEntry>| {
            let stat = task.and_then(|task| std::fs::read_to_string(task.path().join("stat")));
            // pid (name) state …
            stat.is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T")))
        };
        while !std::fs::read_dir(&tasks).expect("it runs").all(is_stopped) {
            std::thread::yield_now();
        }
    }

    /// Whether it has not ended yet.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.as_mut().expect("not ended").try_wait().expect("its own child").is_none()
    }

    /// From now on no file can be written beyond so many bytes: to the process the disk is full.
    pub(crate) fn limit_file_size(&self, bytes: u64) {
        let limit = rustix::process::Rlimit { current: Some(bytes), maximum: Some(bytes) };
        rustix::process::prlimit(Some(self.pid()), rustix::process::Resource::Fsize, limit)
            .expect("its own child");
    }

    /// The volume of a process that was started on a small one takes no more.
    pub(crate) fn fill_volume(&self, data_dir: &Path) {
        let inside = data_dir.strip_prefix("/").expect("absolute");
        let root = PathBuf::from(format!("/proc/{}/root", self.pid().as_raw_nonzero()));
        let mut file = std::fs::File::create(root.join(inside).join("filler")).expect("its volume");
        let block = vec![0; 64 << 10];
        // As a last step byte by byte, until there is none left.
        while file.write(&block).is_ok_and(|written| written > 0) {}
    }

    /// The end, whatever brings it.
    pub(crate) fn wait(&mut self) -> Ended {
        let status = self.child.take().expect("not ended").wait().expect("its own child");
        let stderr = self.stderr.take().expect("not ended").join().expect("no panic");
        Ended { code: status.code(), stderr }
    }

    /// The page of metrics.
    pub(crate) fn metrics(&self) -> String {
        let mut connection = TcpStream::connect(&self.metrics).expect("it listens");
        write!(connection, "GET /metrics HTTP/1.0\r\nHost: test\r\n\r\n").expect("open");
        let mut page = String::new();
        connection.read_to_string(&mut page).expect("text");
        page
    }

    /// One series.
    pub(crate) fn metric(&self, series: &str) -> u64 {
        let page = self.metrics();
        let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {series} in {page}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A plain gRPC connection.
pub(crate) async fn connect(api: &str) -> tonic::transport::Channel {
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{api}")).expect("a URI");
    endpoint.connect().await.expect("it serves")
}

/// A port below those that the operating system gives to outgoing connections, so that it stays free
/// while a server on it is restarted. Tests of one process get different ones.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let begin = u16::try_from(std::process::id() % 9_000).expect("below 9,000") + 20_000;
    loop {
        let port = begin + NEXT.fetch_add(1, Ordering::Relaxed) % 2_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A directory that goes away with the test; the data directory is inside, so that files can lie beside.
pub(crate) struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary directory") }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Another folder in it, which is there.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let folder = self.folder.path().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    }
}

/// Every file below a folder with its content.
pub(crate) fn content(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            files.extend(content(&path));
        } else {
            files.push((path.clone(), std::fs::read(&path).expect("readable")));
        }
    }
    files.sort();
    files
}
