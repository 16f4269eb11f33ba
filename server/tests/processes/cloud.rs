//! Configurations of stores that speak a cloud's protocol, each process behind a proxy of its own.

use std::net::SocketAddr;

use dexzd_rig::{Bucket, Proxy, bucket::Latency};

use crate::harness::Home;
use crate::pair::Member;

const BUCKET: &str = "orders";

/// `objectStorage` of S3 at this address. Nobody looks at the credentials, but there must be some.
pub(crate) fn s3(home: &Home, store: SocketAddr, bucket: &str) -> String {
    let secrets = home.folder("secrets");
    let file = |name: &str| {
        let path = secrets.join(name);
        std::fs::write(&path, "testing").expect("writable");
        path.display().to_string()
    };
    format!(
        "objectStorage: {{kind: s3, bucket: {bucket}, region: us-east-1, endpoint: 'http://{store}', allowHttp: true, \
         credentials: {{accessKeyIdFile: '{}', secretAccessKeyFile: '{}'}}}}\n",
        file("id"),
        file("key")
    )
}

/// Two processes of a node on one bucket in memory, and what stands between each and the bucket.
pub(crate) struct Cloud {
    pub(crate) a: Member,
    pub(crate) b: Member,
    pub(crate) both: String,
    /// Between `a` and the bucket.
    pub(crate) before_a: Proxy,
    _before_b: Proxy,
    _bucket: Bucket,
    _home: Home,
}

impl Cloud {
    pub(crate) fn new() -> Self {
        let home = Home::new();
        let bucket = Bucket::open(BUCKET, Latency::NONE).expect("a free port");
        let [before_a, before_b] = [0, 1].map(|_| Proxy::open(bucket.address()).expect("a free port"));
        let member = |name: &str, proxy: &Proxy| Member::on(&home, name, s3(&home, proxy.address(), BUCKET));
        let (a, b) = (member("a", &before_a), member("b", &before_b));
        let both = format!("{},{}", a.api, b.api);
        Self { a, b, both, before_a, _before_b: before_b, _bucket: bucket, _home: home }
    }
}
