package eval

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
)

// Measures of a trial. What x is, is said beside each.
const (
	MeasureReturn = "return" // sum of the rewards after each step of an episode; x: episode, from 0
	// What the scores of the z that were chosen say of an episode's return, of
	// methods that have scores and models whose discount is known; x: episode.
	MeasurePromised = "promised"

	MeasureReward = "reward" // mean reward of the steps since the row before; x: steps so far
	MeasureLabels = "labels" // labels used so far; x: steps so far
	MeasureAsked  = "asked"  // requests opened so far; x: steps so far
	MeasureHz     = "hz"     // ticks a second of processor time of the deciding side, without the simulator; x: ticks measured
)

// Row is one number of one trial, with what reproduces it. A results file is
// a CSV of rows in any order; the same trial always has the same rows, but for
// MeasureHz.
type Row struct {
	Experiment string // name of the protocol's experiment
	Env        string // "walker", "cheetah", "quadruped", "antmaze", "rover"
	Task       string // such as "walk"
	Bundle     string // path of the model as the protocol names it
	BFMSeed    int    // seed of the model's training, as the bundle's provenance or the protocol says
	Method     string // such as "ucb", "thompson_ep", "lola"
	Params     string // "key=value;key=value", sorted by key: what distinguishes runs of a method
	Trial      int    // from 0
	Seed       uint64 // of the trial, from which all its random numbers follow
	Measure    string
	X          float64
	Value      float64

	Version      string // of the program
	ModelHash    string // sha256 of the bundle's weights, hexadecimal
	ProtocolHash string // of the experiment as it was run, defaults filled in
}

// Columns are the names of a row's fields, in the file's order.
var Columns = []string{"experiment", "env", "task", "bundle", "bfm_seed", "method", "params", "trial", "seed",
	"measure", "x", "value", "version", "model_hash", "protocol_hash"}

// ErrResults is wrapped by every error about a results file.
var ErrResults = errors.New("eval: results")

// record is the row as fields of the file.
func (r Row) record() []string {
	return []string{r.Experiment, r.Env, r.Task, r.Bundle, strconv.Itoa(r.BFMSeed), r.Method, r.Params, strconv.Itoa(r.Trial),
		strconv.FormatUint(r.Seed, 10), r.Measure, format(r.X), format(r.Value), r.Version, r.ModelHash, r.ProtocolHash}
}

func format(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// ReadRows reads a results file, header included. A damaged file gives an error
// that wraps ErrResults and says which line is wrong.
func ReadRows(r io.Reader) ([]Row, error) {
	reader := csv.NewReader(r)
	reader.FieldsPerRecord = len(Columns)
	header, err := reader.Read()
	if err != nil {
		return nil, fmt.Errorf("%w: header: %w: want the columns %v", ErrResults, err, Columns)
	}
	if !slices.Equal(header, Columns) {
		return nil, fmt.Errorf("%w: header: found %v: want %v", ErrResults, header, Columns)
	}
	var rows []Row
	for {
		fields, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return rows, fmt.Errorf("%w: %w", ErrResults, err)
		}
		row, err := parseRow(fields)
		if err != nil {
			line, _ := reader.FieldPos(0)
			return rows, fmt.Errorf("%w: line %d: %w", ErrResults, line, err)
		}
		rows = append(rows, row)
	}
}

func parseRow(f []string) (Row, error) {
	row := Row{Experiment: f[0], Env: f[1], Task: f[2], Bundle: f[3], Method: f[5], Params: f[6], Measure: f[9],
		Version: f[12], ModelHash: f[13], ProtocolHash: f[14]}
	var errs [5]error
	row.BFMSeed, errs[0] = strconv.Atoi(f[4])
	row.Trial, errs[1] = strconv.Atoi(f[7])
	row.Seed, errs[2] = strconv.ParseUint(f[8], 10, 64)
	row.X, errs[3] = finite(f[10])
	row.Value, errs[4] = finite(f[11])
	return row, errors.Join(errs[:]...)
}

func finite(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
		err = fmt.Errorf("found %s: want a finite number", text)
	}
	return v, err
}

// WriteRows writes rows, without the header.
func WriteRows(w io.Writer, rows []Row) error {
	writer := csv.NewWriter(w)
	for _, row := range rows {
		if err := writer.Write(row.record()); err != nil {
			return fmt.Errorf("%w: %w", ErrResults, err)
		}
	}
	writer.Flush()
	if err := writer.Error(); err != nil {
		return fmt.Errorf("%w: %w", ErrResults, err)
	}
	return nil
}
