//! Directories of JSON-lines files that grow, with the figures that a view over all their rows must give.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// One split: its file, and the lines that are not in it yet.
pub struct GrowingFile {
    path: PathBuf,
    to_come: Vec<String>,
}

/// A directory of splits.
pub struct Flights {
    files: Vec<GrowingFile>,
    /// Rows of all files, when all has come.
    pub rows: u64,
    /// The sum of `distance` over them.
    pub distance: u64,
    /// Rows whose `dep_delay` is not null.
    pub delays: u64,
}

impl Flights {
    /// Sixteen splits of very uneven size, with nulls, in `dir`. Four fifths of every file are there at once.
    ///
    /// With TIDEGATE_FLIGHTS set to a directory of the whole data set (one unzipped file a carrier), that is used.
    pub fn create(dir: &Path) -> Self {
        std::fs::create_dir_all(dir).unwrap();
        let contents = match std::env::var_os("TIDEGATE_FLIGHTS") {
            Some(real) => read_real(Path::new(&real)),
            None => (0..16).map(|split| (format!("C{split:02}"), made_up(split))).collect(),
        };
        let mut flights = Self { files: Vec::new(), rows: 0, distance: 0, delays: 0 };
        for (name, mut lines) in contents {
            for line in &lines {
                let row: serde_json::Value = serde_json::from_str(line).unwrap();
                flights.rows += 1;
                flights.distance += row["distance"].as_u64().unwrap_or_default();
                flights.delays += u64::from(!row["dep_delay"].is_null());
            }
            let to_come = lines.split_off(lines.len() * 4 / 5);
            let mut file = GrowingFile { path: dir.join(format!("{name}.jsonl")), to_come: lines };
            file.append(usize::MAX);
            file.to_come = to_come;
            flights.files.push(file);
        }
        flights
    }

    /// Appends up to so many lines to every file. Returns whether there are more to come.
    pub fn append(&mut self, lines: usize) -> bool {
        for file in &mut self.files {
            file.append(lines);
        }
        self.files.iter().any(|file| !file.to_come.is_empty())
    }
}

impl GrowingFile {
    /// Writes in two halves, so that a reader may meet a line that isn't whole.
    fn append(&mut self, lines: usize) {
        let lines: Vec<String> = self.to_come.drain(..lines.min(self.to_come.len())).collect();
        let text = lines.into_iter().map(|line| line + "\n").collect::<String>();
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path).unwrap();
        let (first, second) = text.as_bytes().split_at(text.len() / 2);
        file.write_all(first).unwrap();
        file.write_all(second).unwrap();
    }
}

fn read_real(dir: &Path) -> Vec<(String, Vec<String>)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    files.sort();
    let lines = |path: &Path| std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect();
    files.iter().map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), lines(path))).collect()
}

/// Rows of a split, from 32 to some thousands.
fn made_up(split: u64) -> Vec<String> {
    let rows = 32 + split * split * 35;
    (0..rows)
        .map(|row| {
            let delay = if row % 41 == 0 { "null".to_owned() } else { (row as i64 % 120 - 20).to_string() };
            let distance = 80 + (row * 37 + split * 11) % 4000;
            format!(
                r#"{{"carrier":"C{split:02}","flight":{row},"distance":{distance},"dep_delay":{delay},"time_hour":"2013-01-01T10:00:00Z"}}"#
            )
        })
        .collect()
}
