use super::*;

/// A folder with a private key in it, and the smallest file.
fn smallest() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    Identity::generate().save(&folder.path().join("key")).unwrap();
    let peer = Identity::generate().public();
    let text = format!(
        "private_key = \"key\"\ncarriage = \"native\"\nlisten = \"0.0.0.0:7700\"\n[[peer]]\nname = \"east\"\npublic_key = \"{peer}\"\nnetworks = [\"10.2.0.0/16\"]\n"
    );
    (folder, text)
}

#[test]
fn what_is_not_said_is_as_documented() {
    let (folder, text) = smallest();
    let read = parse(&folder.path().join("west.toml"), &text).unwrap();
    assert_eq!(read.status, Path::new("/run/headend/trunk-west.sock"));
    let config = read.config;
    assert_eq!((config.name.as_str(), config.queue, config.fallback), ("west", 4_700, Fallback::Direct));
    assert_eq!((config.dead_after, config.schedule), (Duration::from_secs(3), Schedule::Priority));
    assert_eq!(config.classes, [EdgeClass::all()]);
    assert_eq!(config.classes[0].queue.room, Bytes::new(5_000_000));
    let peer = &config.peers[0];
    let expected = Send {
        controls: 4,
        vmss: 6_000,
        controller: Personality::linux().controller,
        guaranteed: Rate::bit(0),
        losses: Losses::All,
        repair: None,
    };
    assert_eq!(peer.send, expected);
    assert_eq!(
        peer.receive,
        Receive { controls_max: 64, guaranteed_max: Rate::bit(0), repair_within_max: Duration::ZERO }
    );
    assert_eq!((peer.endpoint, &peer.shared), (None, &SecretKey::NONE));
}

#[test]
fn classes_are_read_with_code_points_by_name_and_the_last_takes_the_rest() {
    let (folder, text) = smallest();
    let classes = "[[class]]\nname = \"voice\"\ndscp = [\"ef\", \"cs5\", \"af41\", 44]\nprotocols = [\"udp\", \"47\"]\nroom = \"100KB\"\nweight = 3\n";
    let config = parse(&folder.path().join("west.toml"), &format!("{text}{classes}")).unwrap().config;
    let voice = &config.classes[0];
    assert_eq!((&voice.matches.dscp[..], &voice.matches.protocols[..]), (&[46, 40, 34, 44][..], &[17, 47][..]));
    assert_eq!(voice.queue, Class { room: Bytes::new(100_000), weight: 3 });
    assert_eq!(config.classes[1], EdgeClass::all());
}

#[test]
fn repair_is_for_both_directions_and_has_losses_judged_by_delay() {
    let (folder, text) = smallest();
    let text = text.replace("native", "sealed");
    let read = |more: &str| {
        let config = parse(&folder.path().join("west.toml"), &format!("{text}{more}\n")).unwrap().config;
        config.peers[0].clone()
    };
    let peer = read("repair = { within = \"40ms\" }");
    let within = Duration::from_millis(40);
    assert_eq!(peer.send.repair, Some(Rules { within, tries: 2 }));
    assert_eq!((peer.receive.repair_within_max, peer.send.losses), (within, Losses::Delayed));
    assert_eq!(read("repair = { within = \"40ms\", tries = 1 }\nlosses = \"all\"").send.losses, Losses::All);
}

#[test]
fn a_mistake_is_told_with_where_it_is_and_what_would_be_right() {
    let (folder, text) = smallest();
    for (text, expected) in [
        (format!("{text}vmss = \"6000\"\n"), ":8: vmss = \"6000\": found \"6000\", expected a size"),
        (format!("{text}vmss = \"100B\"\n"), ":8: peer east: vmss: found 100 bytes, expected 512 to 60000"),
        (format!("{text}controller = \"cubic2\"\n"), "expected one of reno, cubic, fast"),
        (format!("{text}fast_alpha = 3\n"), "peer east: fast_alpha: only controller = \"fast\""),
        (
            format!("{text}repair = {{ within = \"40ms\" }}\n").replace("sealed", "native"),
            ":8: peer east: repair: only sealed carriage has packets to send again",
        ),
        (
            format!("{text}repair = {{ within = \"2s\" }}\n").replace("native", "sealed"),
            "peer east: repair: within: found 2s, expected 1ms to 1s",
        ),
        (
            format!("{text}repair = {{ within = \"40ms\", tries = 0 }}\n").replace("native", "sealed"),
            "peer east: repair: tries: found 0, expected 1 to 8",
        ),
        (format!("{text}repair = {{ tries = 1 }}\n"), "missing field `within`"),
        (format!("{text}controls = 65\n"), "peer east: controls: found 65, expected 1 to 64"),
        (format!("{text}gmb_max = \"1Mbit/s\"\n"), "link: missing: the rate of this site's link"),
        (
            format!("link = \"1Mbit/s\"\n{text}gmb_max = \"2Mbit/s\"\n"),
            "link: 1Mbit/s is less than all gmb_max together",
        ),
        (
            format!("{text}endpoint = \"10.2.0.1:7700\"\n"),
            "endpoint: 10.2.0.1:7700 is in 10.2.0.0/16, which goes to east",
        ),
        (text.replace("0.0.0.0:7700", "0.0.0.0:0"), ":3: listen: 0.0.0.0:0 is no place"),
        (text.replace("0.0.0.0:7700", "224.0.0.1:7700"), "listen: 224.0.0.1:7700 is no place"),
        (text.replace("0.0.0.0:7700", "10.2.0.1:7700"), "networks: 10.2.0.0/16 has this site's own address in it"),
        (format!("{text}endpoint = \"192.0.2.1:0\"\n"), "endpoint: 192.0.2.1:0 is no place"),
        (format!("link = \"0bit/s\"\n{text}"), ":1: link: found 0"),
        (format!("{text}[[class]]\nname = \"voice\"\nports = [1]\nroom = \"0B\"\n"), "class voice: room: found 0"),
        (format!("{text}[[class]]\nname = \"a b\"\nports = [1]\n"), "class a b: name: found \"a b\""),
        (text.replace("\"east\"", "\"east\\u001b[31m\""), "name: found \"east\\u{1b}[31m\", expected up to 20"),
        (format!("{text}losses = \"delayed\"\n"), "only sealed carriage knows which packets were lost"),
        (format!("mtu = 1400\n{text}"), "mtu: only sealed carriage has a device"),
        (format!("clamp_mss = true\n{text}"), "clamp_mss: only sealed carriage has a device"),
        (format!("fallback = \"direct\"\n{text}").replace("native", "sealed"), ":1: fallback: \"direct\" would send"),
        (format!("at_end = \"block\"\n{text}"), ":1: at_end: \"block\" keeps the rules of a trunk that stops packets"),
        (text.replace("native", "tunnelled"), "peer east: endpoint: missing: a tunnel of VXLAN begins and ends"),
        (format!("mtu = 1000\n{text}").replace("native", "tunnelled"), ":1: mtu: found 1000 bytes; IPv6 needs 1280"),
        (format!("mtu = 100\n{text}").replace("native", "sealed"), "mtu: found 100 bytes, expected 576 to 9600"),
        (
            format!("device = \"hd/west\"\n{text}").replace("native", "sealed"),
            "device: \"hd/west\" is no interface's name",
        ),
        (format!("{text}endpoint = \"[2001:db8::1]:7700\"\n"), "endpoint: [2001:db8::1]:7700 cannot be reached"),
        (text.replace("10.2.0.0/16", "10.2.0.1/16"), "expected a network such as"),
        (text.replace("0.0.0.0:7700", "0.0.0.0"), ":3: listen = \"0.0.0.0\": "),
        (text.replace("networks", "network"), "unknown field `network`"),
        (text.replace("\"key\"", "\"none\""), "private_key: read "),
        (format!("name = \"West\"\n{text}"), "name: found \"West\", expected up to 20 small letters"),
        (format!("{text}[[class]]\nname = \"voice\"\ndscp = [\"af44\"]\n"), "found \"af44\", expected a code point"),
        (text.lines().take(3).collect::<Vec<_>>().join("\n"), "peer: expected 1 to 256 of them"),
    ] {
        let message = parse(&folder.path().join("west.toml"), &text).unwrap_err();
        assert!(message.contains("west.toml:") && message.contains(expected), "{text}\nsaid: {message}");
    }
}

#[test]
fn keys_that_are_nobodys_or_ones_own_are_refused_and_private_ones_not_repeated() {
    let (folder, text) = smallest();
    let path = folder.path().join("west.toml");
    let own = Identity::load(&folder.path().join("key")).unwrap().public().to_string();
    let theirs = text.split("public_key = \"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let zeros = format!("{}=", "A".repeat(43));
    assert!(parse(&path, &text.replace(&theirs, &own)).unwrap_err().contains("it is this site's own"));
    assert!(parse(&path, &text.replace(&theirs, &zeros)).unwrap_err().contains("all zeros, which is nobody's"));
    let secret = fs::read_to_string(folder.path().join("key")).unwrap().trim().to_owned();
    for text in [
        text.replace("\"key\"", &format!("\"{secret}\"")),
        text.replace("\"key\"", &format!("\"{secret}")),
        format!("{text}shared_key = \"{secret}\"\n"),
        format!("{text}shared_key = \"{secret}\" oops\n"),
    ] {
        let said = parse(&path, &text).unwrap_err();
        assert!(!said.contains(&secret) && said.contains("key"), "{said}");
    }
}

#[test]
fn sealed_carriage_blocks_without_a_circuit_and_has_a_device_of_its_name() {
    let (folder, text) = smallest();
    let text = format!("addresses = [\"10.1.0.1/24\"]\n{text}losses = \"delayed\"\n").replace("native", "sealed");
    let config = parse(&folder.path().join("a-site-of-some-name.toml"), &text).unwrap().config;
    assert_eq!((config.carriage, config.fallback, config.at_end), (Carriage::Sealed, Fallback::Block, Fallback::Block));
    assert_eq!(config.device.name, "hd-a-site-of-so");
    assert_eq!(config.device.addresses, ["10.1.0.1/24".parse::<ipnet::IpNet>().unwrap()]);
    assert_eq!(config.peers[0].send.losses, Losses::Delayed);
}

#[test]
fn who_may_look_from_afar_is_listed() {
    let (folder, text) = smallest();
    let parsed = |admin: &str| parse(&folder.path().join("west.toml"), &format!("{text}[admin]\n{admin}\n"));
    assert!(parsed("listen = \"127.0.0.1:9081\"").is_ok_and(|read| read.admin.is_some()));
    assert!(parsed("listen = \"0.0.0.0:9081\"\nclients = [\"10.1.0.0/16\"]").is_ok());
    let message = parsed("listen = \"0.0.0.0:9081\"").unwrap_err();
    assert!(message.contains("admin.clients: missing"), "{message}");
}

#[test]
fn two_peers_must_not_be_the_same_or_have_the_same_networks() {
    let (folder, text) = smallest();
    let second = |network: &str| {
        let key = Identity::generate().public();
        format!("{text}[[peer]]\nname = \"north\"\npublic_key = \"{key}\"\nnetworks = [\"{network}\"]\n")
    };
    let parsed = |text: &str| parse(&folder.path().join("west.toml"), text);
    assert!(parsed(&second("10.3.0.0/16")).is_ok());
    let message = parsed(&second("10.2.4.0/24")).unwrap_err();
    assert!(message.contains("peer north: networks: 10.2.4.0/24 and 10.2.0.0/16 of east overlap"), "{message}");
}

#[test]
fn the_reference_has_each_field_that_the_reader_knows_and_no_other() {
    let (folder, text) = smallest();
    let page = include_str!("../../../../../docs/reference/trunk-config.md");
    let documented = |heading: &str| -> Vec<&str> {
        let section =
            page.split("\n## ").find(|section| section.starts_with(heading)).expect("the page has the section");
        let mut fields: Vec<&str> =
            section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
        fields.sort_unstable();
        fields
    };
    let known = |text: String| -> Vec<String> {
        let message = parse(&folder.path().join("west.toml"), &text).expect_err("there is no such field");
        let (_, fields) = message.split_once("expected one of ").expect("the reader lists its fields");
        let mut fields: Vec<String> = fields.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        fields.retain(|field| !["peer", "class", "admin"].contains(&field.as_str()));
        fields.sort_unstable();
        fields
    };
    assert_eq!(known(format!("none_such = 1\n{text}")), documented("The whole"));
    assert_eq!(known(format!("{text}none_such = 1\n")), documented("`[[peer]]`"));
    assert_eq!(known(format!("{text}[admin]\nnone_such = 1\n")), documented("`[admin]`"));
    assert_eq!(known(format!("{text}[[class]]\nname = \"a\"\nnone_such = 1\n")), documented("`[[class]]`"));
}

#[test]
fn each_controller_of_the_registry_can_be_named() {
    for known in Algorithm::ALL {
        assert_eq!(controller(known.name).expect("it is known here").name(), known.name);
    }
}
