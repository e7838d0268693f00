package eval

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// MergeFiles merges the files from into the file path, which it replaces, and returns the number of
// rows. It refuses a path that a run writes to. path may be one of the files from.
func MergeFiles(path string, from []string) (rows int, err error) {
	_, before := os.Stat(path)
	lock, err := openLocked(path)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil && errors.Is(before, fs.ErrNotExist) {
			err = errors.Join(err, os.Remove(path)) // openLocked made it
		}
		err = errors.Join(err, lock.Close())
	}()
	files := make(map[string][]Row, len(from))
	for _, name := range from {
		if files[name], err = ReadFile(name); err != nil {
			return 0, err
		}
	}
	merged, err := Merge(files, from)
	if err != nil {
		return 0, err
	}
	return len(merged), WriteFile(path, merged)
}

// Merge joins the results of several files, such as shards. A trial in several files must have the
// same rows in each, except for MeasureHz; the first file's are kept. Files of one experiment must
// have the same protocol, and those of one bundle the same weights. All trials must be complete.
func Merge(files map[string][]Row, order []string) ([]Row, error) {
	hashes := map[string]string{} // of the protocol, by experiment
	from := map[string]string{}   // file by trial
	kept := map[string][]Row{}    // by experiment and trial
	models := map[string]string{} // hash by bundle
	var ids []string
	for _, name := range order {
		for id, rows := range rowsByTrial(files[name]) {
			first := rows[0]
			if rows[len(rows)-1].Measure != MeasureHz {
				return nil, fmt.Errorf("%w: %s: trial %s is incomplete; complete it with the same command",
					ErrResults, name, id)
			}
			if other, ok := hashes[first.Experiment]; ok && other != first.ProtocolHash {
				return nil, fmt.Errorf("%w: %s: %w: experiment %s has hash %.12s, and %.12s in another file",
					ErrResults, name, ErrOtherProtocol, first.Experiment, first.ProtocolHash, other)
			}
			hashes[first.Experiment] = first.ProtocolHash
			if err := checkModelHash(models, first.Bundle, first.ModelHash); err != nil {
				return nil, fmt.Errorf("%w: %s: %w", ErrResults, name, err)
			}
			if there, ok := kept[id]; ok {
				if !sameRows(there, rows) {
					return nil, fmt.Errorf("%w: %s: trial %s: its rows differ from those in %s; repeat one of the runs",
						ErrResults, name, id, from[id])
				}
				continue
			}
			kept[id], from[id] = rows, name
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	var merged []Row
	for _, id := range ids {
		merged = append(merged, kept[id]...)
	}
	slices.SortStableFunc(merged, compareTrials)
	return merged, nil
}

func rowsByTrial(rows []Row) map[string][]Row {
	trials := map[string][]Row{}
	for _, r := range rows {
		id := r.Experiment + " " + r.trialID()
		trials[id] = append(trials[id], r)
	}
	return trials
}

// sameRows ignores the measured speed and the version.
func sameRows(a, b []Row) bool {
	return slices.EqualFunc(a, b, func(x, y Row) bool {
		if x.Measure == MeasureHz {
			x.Value, y.Value = 0, 0
		}
		x.Version, y.Version = "", ""
		return x == y
	})
}
