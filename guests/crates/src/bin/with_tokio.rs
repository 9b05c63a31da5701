//! Tasks on several threads: channels, locks, timers, sockets, files and blocking work.

use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Notify, RwLock, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;

fn fold(all: u64, next: u64) -> u64 {
    all.wrapping_mul(31).wrapping_add(next)
}

async fn channels() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let (sender, mut receiver) = mpsc::channel::<u64>(16);
    let mut tasks = JoinSet::new();
    for task in 0..8 {
        let (sender, log) = (sender.clone(), log.clone());
        tasks.spawn(async move {
            for message in 0..40 {
                sender.send(task * 100 + message).await.expect("a receiver");
                if message % 10 == 0 {
                    log.lock().await.push(task);
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    drop(sender);
    let mut all = 1;
    while let Some(message) = receiver.recv().await {
        all = fold(all, message);
    }
    tasks.join_all().await;
    println!("{all} {:?}", log.lock().await);
}

async fn echo(mut stream: TcpStream) {
    let mut bytes = [0; 64];
    while let Ok(count) = stream.read(&mut bytes).await {
        if count == 0 || stream.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

async fn sockets() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(echo(stream));
        }
    });
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut clients = JoinSet::new();
    for client in 0..6u8 {
        let order = order.clone();
        clients.spawn(async move {
            let mut stream = TcpStream::connect(address).await.expect("the server");
            for message in 0..20u8 {
                stream.write_all(&[client, message]).await.expect("to write");
                let mut answer = [0; 2];
                stream.read_exact(&mut answer).await.expect("an answer");
                assert_eq!(answer, [client, message]);
                if message % 5 == 0 {
                    order.lock().await.push(client);
                }
            }
        });
    }
    clients.join_all().await;
    println!("{:?}", order.lock().await);
}

async fn locks() {
    let (permits, number) = (Arc::new(Semaphore::new(2)), Arc::new(RwLock::new(1)));
    let mut tasks = JoinSet::new();
    for task in 0..10 {
        let (permits, number) = (permits.clone(), number.clone());
        tasks.spawn(async move {
            let _permit = permits.acquire().await.expect("open");
            tokio::time::sleep(Duration::from_millis(1)).await;
            let mut number = number.write().await;
            *number = fold(*number, task);
            *number
        });
    }
    println!("{:?} {}", tasks.join_all().await, *number.read().await);
    let (notify, (sender, receiver)) = (Arc::new(Notify::new()), oneshot::channel());
    let waiting = notify.clone();
    tokio::spawn(async move {
        waiting.notified().await;
        sender.send(7).expect("a receiver");
    });
    notify.notify_one();
    println!("{}", receiver.await.expect("a number"));
}

#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
async fn main() {
    channels().await;
    sockets().await;
    locks().await;
    let blocking = tokio::task::spawn_blocking(|| std::fs::read("/etc/passwd").expect("users").len());
    println!("{} {}", blocking.await.expect("a length"), tokio::fs::read("/etc/group").await.expect("groups").len());
    let never = tokio::time::timeout(Duration::from_millis(3), std::future::pending::<()>());
    println!("{}", never.await.is_err());
}
