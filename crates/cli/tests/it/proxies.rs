//! Clusters behind proxies, and tokens in files: with real sockets, and a local cluster behind the proxy.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::odh::{Home, Said};

/// A name that exists nowhere: only a proxy can connect to it.
const ELSEWHERE: &str = "api.elsewhere.invalid:6443";

/// A proxy that connects every tunnel to one address, and records what it was asked.
struct Proxy {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// `shake_hands` reads what the client asks for and grants it.
    fn start(to: String, shake_hands: fn(&mut TcpStream) -> Option<String>) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let record = asked.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (mut client, to, record) = (client.unwrap(), to.clone(), record.clone());
                std::thread::spawn(move || {
                    let Some(request) = shake_hands(&mut client) else { return };
                    record.lock().unwrap().push(request);
                    relay(client, TcpStream::connect(to).unwrap());
                });
            }
        });
        Proxy { address, asked }
    }

    /// Takes what was asked since the last call.
    fn asked(&self) -> Vec<String> {
        // A command may open several connections.
        let mut asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.dedup();
        asked
    }
}

fn relay(mut client: TcpStream, mut server: TcpStream) {
    let (mut from_server, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_server, &mut to_client);
        let _ = to_client.shutdown(std::net::Shutdown::Both);
    });
    let _ = std::io::copy(&mut client, &mut server);
    let _ = server.shutdown(std::net::Shutdown::Both);
}

/// HTTP CONNECT; returns the request with its credentials.
fn http(client: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).ok()?;
        request.extend(byte);
    }
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").ok()?;
    let request = String::from_utf8(request).ok()?;
    let words = |line: &str| line.split(' ').nth(1).unwrap_or_default().to_owned();
    let user = request.lines().find_map(|line| line.strip_prefix("Proxy-Authorization: "));
    let asked = words(request.lines().next()?);
    Some(user.map_or(asked.clone(), |user| format!("{asked} {user}")))
}

/// SOCKS 5 without authentication (RFC 1928), for a name.
fn socks(client: &mut TcpStream) -> Option<String> {
    let mut take = |count: usize| {
        let mut bytes = vec![0; count];
        client.read_exact(&mut bytes).ok().map(|()| bytes)
    };
    let methods = take(2)?[1];
    take(methods.into())?;
    client.write_all(&[5, 0]).ok()?;
    let mut take = |count: usize| {
        let mut bytes = vec![0; count];
        client.read_exact(&mut bytes).ok().map(|()| bytes)
    };
    let request = take(5)?;
    assert_eq!(request[..4], [5, 1, 0, 3], "a connection to a name");
    let name = String::from_utf8(take(request[4].into())?).ok()?;
    let port = take(2)?;
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).ok()?;
    Some(format!("{name}:{}", u16::from_be_bytes([port[0], port[1]])))
}

/// The home of a cluster that is up, and its address.
fn up() -> (Home, String) {
    let home = Home::new();
    home.run("local up").ends(0);
    let kubeconfig = std::fs::read_to_string(home.state().join("kubeconfig")).unwrap();
    let server = kubeconfig.split("server: https://").nth(1).unwrap().lines().next().unwrap().trim();
    let address = server.trim_matches('"').to_owned();
    (home, address)
}

/// The cluster's kubeconfig, with another text in place of its `server` line.
fn kubeconfig(home: &Home, address: &str, name: &str, cluster: &str) -> String {
    let own = std::fs::read_to_string(home.state().join("kubeconfig")).unwrap();
    let line = own.lines().find(|line| line.contains(&format!("https://{address}"))).unwrap();
    let indented = &line[..line.find("server").unwrap()];
    let cluster = cluster.replace('\n', &format!("\n{indented}"));
    home.file(name, &own.replace(line, &format!("{indented}{cluster}")))
}

fn list(home: &Home, kubeconfig: &str, variables: &[(&str, &str)]) -> Said {
    let mut command = home.command(&["training", "list", "--kubeconfig", kubeconfig]);
    let out = command.envs(variables.iter().copied()).output().unwrap();
    Said {
        code: out.status.code().unwrap_or(-1),
        out: String::from_utf8(out.stdout).unwrap(),
        err: String::from_utf8(out.stderr).unwrap(),
    }
}

#[test]
fn a_cluster_behind_a_proxy_is_reached() {
    let (home, address) = up();
    let proxy = Proxy::start(address.clone(), http);
    let elsewhere = format!("server: https://{ELSEWHERE}\ntls-server-name: localhost");
    let behind = kubeconfig(&home, &address, "behind", &elsewhere);
    let url = format!("http://{}", proxy.address);

    list(&home, &behind, &[("HTTPS_PROXY", &url), ("NO_PROXY", ",10.0.0.0/8,.example.org,")]).ends(0);
    assert_eq!(proxy.asked(), [ELSEWHERE]);
    let with_user = format!("me:pa%3Ass@{}", proxy.address);
    list(&home, &behind, &[("https_proxy", &with_user)]).ends(0);
    assert_eq!(
        proxy.asked(),
        [format!("{ELSEWHERE} Basic bWU6cGE6c3M=")],
        "without a scheme, with a password"
    );

    list(&home, &behind, &[("HTTPS_PROXY", &url), ("NO_PROXY", ".invalid")]).ends(1).says("cannot reach");
    list(&home, &behind, &[("HTTPS_PROXY", &url), ("NO_PROXY", "*")]).ends(1);
    list(&home, &behind, &[("HTTP_PROXY", &url), ("ALL_PROXY", &url)]).ends(1);
    assert_eq!(proxy.asked(), [""; 0]);

    let named = kubeconfig(&home, &address, "named", &format!("{elsewhere}\nproxy-url: {url}"));
    list(&home, &named, &[("NO_PROXY", "*"), ("HTTPS_PROXY", "http://127.0.0.1:1")]).ends(0);
    assert_eq!(proxy.asked(), [ELSEWHERE], "a kubeconfig's proxy comes first");
    let near = kubeconfig(&home, &address, "near", &format!("server: https://{address}\nproxy-url: {url}"));
    list(&home, &near, &[]).ends(0);
    assert_eq!(proxy.asked(), [address.as_str()]);

    let socks = Proxy::start(address, socks);
    list(&home, &behind, &[("HTTPS_PROXY", &format!("socks5://{}", socks.address))]).ends(0);
    assert_eq!(socks.asked(), [ELSEWHERE]);
}

#[test]
fn a_local_cluster_needs_no_proxy_and_a_broken_one_is_named() {
    let home = Home::new();
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let broken = format!("http://me:secret@{dead}");
    let run = |line: &str| {
        let mut command = home.command(&line.split(' ').collect::<Vec<_>>());
        command
            .env("HTTPS_PROXY", &broken)
            .env("HTTP_PROXY", &broken)
            .env("NO_PROXY", "nothing,")
            .output()
            .unwrap()
    };
    for line in ["local up", "training list", "local dashboard --print"] {
        let out = run(line);
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    }
    let own = std::fs::read_to_string(home.state().join("kubeconfig")).unwrap();
    let address =
        own.split("server: https://").nth(1).unwrap().lines().next().unwrap().trim_matches('"').to_owned();
    let behind = kubeconfig(&home, &address, "behind", &format!("server: https://{ELSEWHERE}"));
    let said = list(&home, &behind, &[("HTTPS_PROXY", &broken)]).ends(1).says(&format!("the proxy {dead}"));
    assert!(said.err.contains("HTTPS_PROXY") && !said.err.contains("secret"), "{}", said.err);
    let said = list(&home, &behind, &[("HTTPS_PROXY", "ftp://me:secret@proxy")]).ends(1);
    assert!(said.err.contains("HTTPS_PROXY is not") && !said.err.contains("secret"), "{}", said.err);
}

/// Listens on loopback, and answers whatever it reads with this text; returns the address.
fn answering(text: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while matches!(client.read(&mut bytes), Ok(1..)) && client.write_all(text.as_bytes()).is_ok()
                {
                }
            });
        }
    });
    address
}

#[test]
fn a_proxy_that_does_not_answer_as_one_is_named_in_time() {
    let home = Home::new();
    let behind = home.file(
        "behind",
        &format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: \"https://{ELSEWHERE}\"}}}}]\n\
             users: [{{name: u, user: {{token: t}}}}]\n"
        ),
    );
    let refusal = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    let cases = [
        ("https", "", "no TLS handshake within 10 s"),
        ("https", refusal, "corrupt message"),
        ("http", "", "no tunnel within 20 s"),
    ];
    std::thread::scope(|scope| {
        for (scheme, answer, reason) in cases {
            let (home, behind) = (&home, &behind);
            scope.spawn(move || {
                let address = answering(answer);
                let begun = Instant::now();
                let said = list(home, behind, &[("HTTPS_PROXY", &format!("{scheme}://{address}"))]).ends(1);
                let took = begun.elapsed();
                let said = said.says(&format!("the proxy {address} (see HTTPS_PROXY)")).says(reason);
                assert_eq!(said.err.contains(&format!("write http://{address}")), scheme == "https");
                assert!(took < Duration::from_secs(28), "{took:?}: {}", said.err);
            });
        }
    });
}

#[test]
fn a_token_file_may_end_with_a_line_break() {
    let (home, _) = up();
    let own = std::fs::read_to_string(home.state().join("kubeconfig")).unwrap();
    let line = own.lines().find(|line| line.trim_start().starts_with("token: ")).unwrap();
    let token = line.split("token: ").nth(1).unwrap().trim_matches('"').to_owned();
    let with_file = |name: &str, text: &str| {
        let file = home.file(name, text);
        home.file(
            &format!("{name}.kubeconfig"),
            &own.replace(line, &line.replace(&format!("token: {token}"), &format!("tokenFile: {file}"))),
        )
    };
    list(&home, &with_file("token", &format!("{token}\n")), &[]).ends(0);
    let said = list(&home, &with_file("two", &format!("{token}\n{token}\n")), &[]).ends(1);
    let file = Path::new("two").display().to_string();
    assert!(said.err.contains(&file) && said.err.contains("no token has"), "{}", said.err);
    assert!(!said.err.contains(&token), "{}", said.err);
}

#[test]
fn another_clusters_authority_is_named() {
    let (home, _) = up();
    let other = Home::new();
    other.run("local up").ends(0);
    let field = |home: &Home| {
        let own = std::fs::read_to_string(home.state().join("kubeconfig")).unwrap();
        // The text stands in the line below.
        let mut lines = own.lines().skip_while(|line| !line.contains("certificate-authority-data"));
        lines.nth(1).unwrap().trim().to_owned()
    };
    let own = std::fs::read_to_string(home.state().join("kubeconfig")).unwrap();
    let mixed = home.file("mixed", &own.replace(&field(&home), &field(&other)));
    list(&home, &mixed, &[]).ends(1).says("certificate authority").says("certificate-authority-data");
}
