package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"

	"optibfm/tflite/roof"
)

// benchReport is what `optibfm bench` prints.
type benchReport struct {
	Model     benchModelReport   `json:"model"`
	Machine   benchMachineReport `json:"machine"`
	Strategy  string             `json:"strategy"`
	Size      int                `json:"size,omitempty"`      // candidates or gradient steps of a plan
	SizeMore  int                `json:"size_more,omitempty"` // of the second plan, from which Allowance.Room is
	Replan    uint64             `json:"replan_every_ticks"`
	Control   []rowReport        `json:"control"`
	Searched  int                `json:"searched"`
	Search    []rowReport        `json:"search"`
	Steps     []stepReport       `json:"steps"`
	Plans     []rowReport        `json:"plans"`
	Limits    limitsReport       `json:"limits"`
	Stages    []stage            `json:"stages"`
	Allowance allowance          `json:"allowance"`
	Backend   string             `json:"tensorflow"` // what it is, or why there is none
}

type benchModelReport struct {
	Name     string `json:"name"`
	Hash     string `json:"hash"`
	Obs      int    `json:"obs"`
	Action   int    `json:"action"`
	Latent   int    `json:"latent"`
	Ensemble int    `json:"ensemble"`
}

type benchMachineReport struct {
	CPU          string `json:"cpu"`
	Processors   int    `json:"processors"`
	Go           string `json:"go"`
	Instructions string `json:"instructions"` // of the limits
}

type rowReport struct {
	Name    string  `json:"name"`
	Calls   int64   `json:"calls"`
	P50     float64 `json:"p50_ns"`
	P99     float64 `json:"p99_ns"`
	Max     float64 `json:"max_ns"`
	Allocs  float64 `json:"allocs"`        // of a call
	Garbage float64 `json:"garbage_bytes"` // of a call
}

type stepReport struct {
	rowReport
	Ratio float64 `json:"ratio"`           // to the policy alone, of the medians
	Paper float64 `json:"paper,omitempty"` // the paper's, on its machine
}

type limitsReport struct {
	GFLOPS float64      `json:"gflops"`
	Read   []readReport `json:"read"`
}

type readReport struct {
	Level  string  `json:"level"`
	Buffer int64   `json:"buffer_bytes"`
	GBS    float64 `json:"gbs"`
}

func (b *benchmark) report() benchReport {
	return benchReport{
		Model: b.modelReport(), Machine: machineReport(),
		Strategy: b.file.Controller.Strategy, Size: b.period.size, SizeMore: b.period.sizeMore, Replan: b.file.Controller.Replan,
		Control: rowReports(b.control.rows), Searched: b.searched(), Search: rowReports(b.search.rows),
		Steps: b.stepReports(), Plans: rowReports(b.period.rows),
		Limits: b.limitsReport(), Stages: b.stages(), Allowance: b.allowance(), Backend: b.tfNote,
	}
}

func (b *benchmark) modelReport() benchModelReport {
	d := b.model.Dims()
	return benchModelReport{Name: b.model.title(), Hash: b.model.hash(), Obs: d.Obs, Action: d.Action, Latent: d.Latent, Ensemble: d.Ensemble}
}

func machineReport() benchMachineReport {
	return benchMachineReport{CPU: cpuName(), Processors: runtime.GOMAXPROCS(0), Go: runtime.Version(), Instructions: roof.Instructions()}
}

// cpuName is what Linux calls the processor, or its architecture.
func cpuName() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		if key = strings.TrimSpace(key); key == "model name" || key == "Model" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func rowReports(rows []*timed) []rowReport {
	var reports []rowReport
	for _, r := range rows {
		reports = append(reports, rowReport{r.name, r.calls(), r.p50(), r.p99(), r.max(), r.allocs(), r.wasted()})
	}
	return reports
}

func (b *benchmark) stepReports() []stepReport {
	var reports []stepReport
	for i, r := range rowReports(b.steps.rows) {
		row := b.steps.rows[i]
		reports = append(reports, stepReport{r, row.p50() / b.steps.policy.p50(), b.steps.paper[row]})
	}
	return reports
}

func (b *benchmark) limitsReport() limitsReport {
	r := limitsReport{GFLOPS: b.roof.peak.rate()}
	for i, l := range b.roof.levels {
		r.Read = append(r.Read, readReport{l.Name, int64(l.Buffer), b.roof.reads[i].rate()})
	}
	return r
}

func (r benchReport) writeJSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

func (r benchReport) print(out io.Writer) error {
	p := &benchPrinter{out: out}
	p.control(r)
	p.search(r)
	p.steps(r)
	p.stages(r)
	p.allowance(r)
	return errors.Join(p.errs...)
}
