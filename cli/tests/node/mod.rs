//! Real servers, and something between them and dexcli that cuts the line.

use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A process that has not said what is waited for by then hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running `dex-server-zd`, killed at the end of the test.
pub(crate) struct Node {
    child: Child,
    said: Receiver<String>,
    /// `127.0.0.1:port`.
    pub(crate) api: String,
}

impl Node {
    /// `dex-server-zd PROFILE` with this configuration, once its first line begins with `word`.
    pub(crate) fn start(folder: &Path, profile: &str, config: &str, word: &str) -> Self {
        std::fs::create_dir_all(folder).expect("a folder");
        let file = folder.join("config.yaml");
        std::fs::write(&file, format!("metrics: {{listen: '127.0.0.1:0'}}\n{config}")).expect("writable");
        let mut child = Command::new(binary())
            .args([profile, "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder.join("data"))
            .arg("--config")
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server was built");
        let stdout = child.stdout.take().expect("piped");
        let (say, said) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = say.send(line);
            }
        });
        let mut node = Self { child, said, api: String::new() };
        let line = node.said.recv_timeout(PATIENCE).expect("it starts");
        assert!(line.starts_with(word), "{line}");
        let api = line.split_whitespace().find_map(|word| word.strip_prefix("api="));
        node.api = api.expect("in every line").to_owned();
        node
    }

    /// Waits for its next role.
    pub(crate) fn says(&self, word: &str) {
        let line = self.said.recv_timeout(PATIENCE).expect("it runs and says something");
        assert!(line.starts_with(word), "{line}");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Built together with the tests of `dexzd-server`, or by hand; where dexcli itself looks first.
fn binary() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_dexcli")).with_file_name("dex-server-zd");
    assert!(path.exists(), "build it first: `cargo build -p dexzd-server` in the profile of this test");
    path
}

/// Carries bytes both ways until it is cut.
pub(crate) struct Line {
    pub(crate) address: String,
    ends: Receiver<[TcpStream; 2]>,
}

impl Line {
    pub(crate) fn to(api: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let (keep, ends) = channel();
        let api = api.to_owned();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&api).expect("it listens");
                let clone = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
                carry(clone(&client), clone(&server));
                carry(clone(&server), clone(&client));
                if keep.send([client, server]).is_err() {
                    return;
                }
            }
        });
        Self { address, ends }
    }

    /// Ends every connection at once, at both ends.
    pub(crate) fn cut(&self) {
        for ends in self.ends.try_iter() {
            for end in ends {
                let _ = end.shutdown(std::net::Shutdown::Both);
            }
        }
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
    });
}
