//! The same pair over servers that others wrote: moto for S3, Azurite for Azure.

use dexzd_proto::LeaseHolder;
use dexzd_rig::Server as Store;
use dexzd_rig::servers::{AZURITE_ACCOUNT, AZURITE_KEY};

use crate::cloud::s3;
use crate::epochs::Epochs;
use crate::harness::Home;
use crate::load::Load;
use crate::pair::{Member, next_word, step_down, terminate};

/// HA-14, HA-18, HA-55, D-35: one kill and one step down under load, on the store of this section.
async fn change_places(home: &Home, section: &str) {
    let [a, b] = ["a", "b"].map(|name| Member::on(home, name, section.to_owned()));
    let first = a.active();
    let second = b.hot_standby().await;
    let epochs = Epochs::watch(&[&a.api, &b.api]);
    let load = Load::begin(&format!("{},{}", a.api, b.api), 2);
    epochs.until(1).await;
    load.acknowledge(10).await;
    tokio::task::block_in_place(|| first.kill());
    assert_eq!(next_word(&second).await, "ready");
    let first = a.hot_standby().await;
    epochs.until(2).await;
    load.acknowledge(10).await;
    assert_eq!(step_down(&b.api).await, LeaseHolder::TakenOverByAnotherProcess);
    assert_eq!((next_word(&second).await, next_word(&first).await), ("standby".into(), "ready".into()));
    epochs.until(3).await;
    load.verify().await;
    epochs.verify().await;
    terminate([second, first]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ha_040_ha_055_d_035_a_pair_changes_places_over_moto() {
    let home = Home::new();
    let store = Store::moto(&["orders"]);
    change_places(&home, &s3(&home, store.address(), "orders")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ha_040_ha_055_d_035_a_pair_changes_places_over_azurite() {
    let home = Home::new();
    let store = Store::azurite(&["orders"]);
    let key = home.folder("secrets").join("account-key");
    std::fs::write(&key, AZURITE_KEY).expect("writable");
    let section = format!(
        "objectStorage: {{kind: azure, container: orders, account: {AZURITE_ACCOUNT}, allowHttp: true, \
         endpoint: 'http://{}/{AZURITE_ACCOUNT}', credentials: {{accountKeyFile: '{}'}}}}\n",
        store.address(),
        key.display()
    );
    change_places(&home, &section).await;
}
