use std::pin::pin;
use std::task::Waker;

use proto::worker_frame::Pong;
use tokio_stream::StreamExt as _;

use super::*;

fn heartbeat(bytes: usize) -> Kind {
    Kind::Heartbeat(Heartbeat {
        handout: None,
        checkpoint: Some(proto::Value { encoding: "raw".to_owned(), data: vec![0; bytes] }),
    })
}

async fn batch_sizes(batches: Batches) -> Vec<usize> {
    batches.map(|batch| batch.frames.len()).collect().await
}

#[tokio::test]
async fn what_is_ready_travels_together() {
    let (frames, batches) = frame_channel();
    for _ in 0..3 {
        frames.send(Kind::Pong(Pong {}));
    }
    frames.finish();
    assert_eq!(batch_sizes(batches).await, [3]);
}

#[tokio::test]
async fn a_batch_ends_at_256_frames_or_a_mebibyte() {
    let (frames, batches) = frame_channel();
    for _ in 0..600 {
        frames.send(Kind::Pong(Pong {}));
    }
    frames.finish();
    let sizes = batch_sizes(batches).await;
    assert_eq!((sizes.iter().sum::<usize>(), sizes.iter().max()), (600, Some(&256)));

    let (frames, batches) = frame_channel();
    for _ in 0..5 {
        frames.send(heartbeat(600_000));
    }
    frames.finish();
    assert_eq!(batch_sizes(batches).await, [2, 2, 1]);
}

#[tokio::test]
async fn fd_015_of_the_heartbeats_that_still_wait_the_newest_leaves() {
    let value = |byte| Some(proto::Value { encoding: "raw".to_owned(), data: vec![byte] });
    let handout = |counter| Some(proto::HandoutId { epoch: 1, counter });
    let (frames, mut batches) = frame_channel();
    let (first, second) =
        (Arc::new(HeartbeatSlot::new(handout(1))), Arc::new(HeartbeatSlot::new(handout(2))));
    for byte in 0..100 {
        frames.send_heartbeat(&first, value(byte));
    }
    frames.send_heartbeat(&second, value(7));
    frames.send_heartbeat(&second, None);
    let heartbeat =
        |handout, checkpoint| WorkerFrame { kind: Some(Kind::Heartbeat(Heartbeat { handout, checkpoint })) };
    let batch = batches.next().await.unwrap();
    assert_eq!(batch.frames, [heartbeat(handout(1), value(99)), heartbeat(handout(2), None)]);

    frames.send_heartbeat(&first, value(100));
    let batch = batches.next().await.unwrap();
    assert_eq!(batch.frames, [heartbeat(handout(1), value(100))]);
}

#[tokio::test]
async fn nothing_follows_the_end_of_a_stream() {
    let (frames, batches) = frame_channel();
    frames.send(Kind::Pong(Pong {}));
    frames.finish();
    frames.send(Kind::Pong(Pong {}));
    assert_eq!(batch_sizes(batches).await, [1]);
}

#[test]
fn an_idle_stream_waits() {
    let (_frames, batches) = frame_channel();
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(batches).poll_next(&mut context).is_pending());
}
