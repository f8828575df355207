use super::*;

fn outcome() -> RunOutcome {
    let flow = FlowRow {
        flow: "get \"a\", b".into(),
        bytes: 1_000,
        start_ns: 500_000_000,
        transfer_ns: Some(2_000_000_000),
        acked_ns: Some(2_100_000_000),
        active_ns: 2_000_000_000,
        delivered_bytes: 1_000,
        wire_bytes: 1_500,
        rtt_ns: Some([1, 2, 3, 4]),
        ..FlowRow::default()
    };
    let cut = FlowRow {
        instance: 1,
        transfer_ns: None,
        acked_ns: None,
        rtt_ns: None,
        delivered_bytes: 500,
        fault: "reset".into(),
        ..flow.clone()
    };
    let link = LinkRow {
        link: "cable".into(),
        direction: "down".into(),
        busy_ns: 1_000_000_000,
        occupancy_packet_ns: 8_000_000_000,
        sojourn_ns: 3_000_000_000,
        served: 3,
        ..LinkRow::default()
    };
    RunOutcome {
        point: 1,
        run: 0,
        seed: 7,
        end_ns: 4_000_000_000,
        flows: vec![flow, cut],
        links: vec![link],
        circuits: Vec::new(),
        media: Vec::new(),
        intervals: Vec::new(),
    }
}

fn results() -> Results {
    let swept = vec![("links.cable.down.loss".to_string(), vec!["0%".into(), "1%".into()])];
    Results::of(&[outcome()], &swept, None)
}

fn f64s<'a>(table: &'a Table, name: &str) -> &'a [f64] {
    table.column(name).unwrap().as_f64().unwrap()
}

#[test]
fn goodput_counts_the_file_and_throughput_the_wire() {
    let flows = results().flows;
    assert_eq!(f64s(&flows, "goodput_bps"), [4_000.0, 2_000.0]);
    assert_eq!(f64s(&flows, "throughput_bps"), [6_000.0, 6_000.0]);
}

#[test]
fn a_flow_that_was_cut_short_is_not_completed_and_has_no_transfer_time() {
    let flows = results().flows;
    assert_eq!(flows.column("completed").unwrap().as_u64().unwrap(), [1, 0]);
    assert_eq!(f64s(&flows, "transfer_s")[0], 2.0);
    assert!(f64s(&flows, "transfer_s")[1].is_nan());
    assert_eq!(&*flows.column("fault").unwrap().as_text().unwrap()[1], "reset");
}

#[test]
fn a_link_is_averaged_over_the_whole_run() {
    let links = results().links;
    assert_eq!(f64s(&links, "utilisation"), [0.25]);
    assert_eq!(f64s(&links, "queue_mean_packets"), [2.0]);
    assert_eq!(f64s(&links, "sojourn_mean_s"), [1.0]);
}

#[test]
fn csv_quotes_what_needs_it_and_leaves_missing_numbers_empty() {
    let mut csv = Vec::new();
    results().flows.write_csv(&mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("point,links.cable.down.loss,run,seed,flow,instance,bytes,start_s,completed,"));
    assert!(lines[1].starts_with("1,1%,0,7,\"get \"\"a\"\", b\",0,1000,0.5,1,2.0,2.1,4000.0,"), "{}", lines[1]);
    assert!(lines[2].starts_with("1,1%,0,7,\"get \"\"a\"\", b\",1,1000,0.5,0,,,2000.0,"), "{}", lines[2]);
    assert_eq!(lines.len(), 3);
}

#[test]
fn json_holds_the_same_columns_with_null_for_missing_numbers() {
    let mut json = Vec::new();
    results().write_json(&mut json).unwrap();
    let read: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(read["flows"]["transfer_s"], serde_json::json!([2.0, null]));
    assert_eq!(read["links"]["link"], serde_json::json!(["cable"]));
    let order: Vec<_> = results().flows.columns().iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(read["flows"].as_object().unwrap().len(), order.len());
}

#[test]
fn an_outcome_survives_the_journal_exactly() {
    let mut outcome = outcome();
    outcome.links[0].occupancy_packet_ns = u128::from(u64::MAX) + 1;
    outcome.flows[0].bytes = u64::MAX;
    let line = serde_json::to_string(&outcome).unwrap();
    assert_eq!(serde_json::from_str::<RunOutcome>(&line).unwrap(), outcome);
}

#[test]
#[should_panic(expected = "equally long")]
fn a_table_refuses_columns_of_different_length() {
    let mut table = Table::default();
    table.push("a", Column::U64(vec![1]));
    table.push("b", Column::U64(vec![1, 2]));
}

#[test]
fn a_folder_of_results_is_whole_and_its_journal_gone() {
    let place = std::env::temp_dir().join(format!("headend-{}-folder", std::process::id()));
    let _ = std::fs::remove_dir_all(&place);
    let (part, folder) = (place.join("out.part"), place.join("out"));
    std::fs::create_dir_all(&part).unwrap();
    std::fs::write(part.join("journal.jsonl"), "{}\n").unwrap();
    results().write_folder(&part, &folder, "title = \"x\"\n").unwrap();
    let mut names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["flows.csv", "links.csv", "scenario.toml"]);
    assert!(!part.exists());
    // What is there already is not overwritten.
    assert!(results().write_folder(&part, &folder, "").is_err());
    assert_eq!(std::fs::read_to_string(folder.join("scenario.toml")).unwrap(), "title = \"x\"\n");
    std::fs::remove_dir_all(&place).unwrap();
}
