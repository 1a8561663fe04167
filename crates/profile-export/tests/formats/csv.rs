//! CSV is read by Python's csv module.

use crate::foreign_tool::read_with;
use crate::sample_profile;
use transect_analyze::synthetic::latency_service;
use transect_profile_export::{ExportError, Format, csv::FLOW_COLUMNS, export};

#[test]
fn latencies_alone_are_a_table_and_no_stacks() {
    let mut bytes = Vec::new();
    export(&latency_service(), Format::Csv, &mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.starts_with("function,component,calls_seen,samples,mean_ns,p50_ns,p90_ns,p99_ns,max_ns,"), "{text}");
    assert!(text.contains("\r\nmain,service,1,0,,,,,,1,,main,src/main.cc,12,4096,1,1,,,\r\n"), "{text}");
    for format in [Format::Pprof, Format::Collapsed, Format::Firefox, Format::Speedscope] {
        let error = export(&latency_service(), format, &mut Vec::new()).unwrap_err();
        assert!(
            matches!(error, ExportError::NoFlows { .. }) && error.to_string().contains("--view latency"),
            "{error}"
        );
    }
}

const READER: &str = r#"
import csv, io, sys
text = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", newline="")
rows = list(csv.reader(text, strict=True))
header = rows[0]
assert all(len(r) == len(header) for r in rows), "ragged"
print(",".join(header))
for r in rows[1:]:
    r = dict(zip(header, r))
    for key, value in r.items():
        assert not value.startswith(("=", "+", "-", "@", "\t", "\r")), (key, value)
    print(r["caller"], r["callee"], ascii(r["api"]), r["calls"], r["total_ns"], r["bytes"], sep="|")
"#;

#[test]
fn python_reads_the_flows() {
    let mut bytes = Vec::new();
    export(&sample_profile::profile(), Format::Csv, &mut bytes).unwrap();
    let Some(read) = read_with("python3", &["-c", READER], &bytes) else { return };
    let mut lines = read.lines();
    assert_eq!(lines.next().unwrap(), FLOW_COLUMNS.join(","));
    let rows: Vec<&str> = lines.collect();
    // Threads are summed.
    assert!(rows.contains(&"app|libz.so.1|'deflate'|120|1200000000|1048576"), "{read}");
    assert!(rows.contains(&"app|libc.so.6|'setjmp'|3||"), "{read}");
    assert!(rows.iter().any(|r| r.contains(r"\'=cmd|")), "{read}");
    assert_eq!(rows.len(), 5, "{read}");
}
