package main

import (
	"os"

	"optibfm/tflite/roof"
)

// roofSection measures the limits of one core, in turn with everything else.
type roofSection struct {
	rows   []*timed
	levels []roof.Level
	peak   limit
	reads  []limit // one a level
	stages []stageLimit
}

// limit is a row that does a known amount of work.
type limit struct {
	row  *timed
	unit float64 // of work in a call: operations or bytes
}

// rate is in units a nanosecond: GFLOP/s or GB/s. It is that of the fastest call,
// as a stage's is: what the machine can do while nobody else runs on it.
func (l limit) rate() float64 { return l.unit / l.row.least() }

// peakRounds is enough work for the clock not to matter.
const peakRounds = 10_000

func (b *benchmark) openRoof() error {
	levels, err := roof.Levels(os.DirFS("/sys"))
	if len(levels) == 0 {
		return err
	}
	r := &b.roof
	r.levels = levels // without /sys only the memory: the limit is then too low for what a cache holds
	r.peak = limit{
		newTimed("peak multiply-adds", func() error { roof.MultiplyAdds(peakRounds); return nil }),
		float64(roof.MultiplyAdds(peakRounds)),
	}
	r.rows = []*timed{r.peak.row}
	for _, l := range levels {
		r.reads = append(r.reads, r.newRead(l.Name, l.Buffer))
	}
	b.openStages()
	return nil
}

// newRead adds a row that reads a buffer.
func (r *roofSection) newRead(name string, size int) limit {
	buffer := roof.NewBuffer(size)
	read := limit{newTimed("read "+name, func() error { roof.Read(buffer); return nil }), float64(roof.Read(buffer))}
	r.rows = append(r.rows, read.row)
	return read
}

// stageLimit is a stage with what limits it: reading as many bytes as its weights.
type stageLimit struct {
	name    string
	row     *timed
	dense   int64 // operations with nothing shared or left out
	weights limit
}

// openStages has the networks of a native bundle. Two operations are one weight of
// four bytes.
func (b *benchmark) openStages() {
	native := b.native()
	if native == nil {
		return
	}
	flops, members := native.Architecture.FLOPs(), native.Dims().Ensemble
	add := func(name string, row *timed, dense, one int64) {
		b.roof.stages = append(b.roof.stages, stageLimit{name, row, dense, b.roof.newRead("weights of "+name, max(int(2*one), 4096))})
	}
	add("φ", b.control.phi, flops.Phi, flops.Phi)
	add("π", b.control.act, flops.Act, flops.Act)
	add("search", b.search.one, flops.Search(b.searched(), members), flops.Search(1, members))
}

// stage is the evaluation of one of a native bundle's networks beside the limits.
type stage struct {
	Name       string  `json:"name"`
	DenseFLOPs int64   `json:"dense_flops"` // with nothing shared or left out
	FLOPs      float64 `json:"flops"`       // that were done
	Bytes      float64 `json:"bytes"`       // that the products read and wrote
	GFLOPS     float64 `json:"gflops"`
	GBS        float64 `json:"gbs"`
	ReadGBS    float64 `json:"read_gbs"` // at which as many bytes as the weights can be read
	RoofGFLOPS float64 `json:"roof_gflops"`
	OfRoof     float64 `json:"of_roof"`
	Bound      string  `json:"bound"` // peak or read: what the roof is
}

func (b *benchmark) stages() (stages []stage) {
	for _, l := range b.roof.stages {
		stages = append(stages, l.report(b.roof.peak.rate()))
	}
	return stages
}

// report sets a stage beside its limits.
func (l stageLimit) report(peak float64) stage {
	s := stage{Name: l.name, DenseFLOPs: l.dense, FLOPs: l.row.flops(), Bytes: l.row.traffic(), ReadGBS: l.weights.rate()}
	s.GFLOPS, s.GBS = s.FLOPs/l.row.least(), s.Bytes/l.row.least()
	s.Bound, s.RoofGFLOPS = "peak", peak
	if slope := s.FLOPs / s.Bytes * s.ReadGBS; slope < peak {
		s.Bound, s.RoofGFLOPS = "read", slope
	}
	s.OfRoof = s.GFLOPS / s.RoofGFLOPS
	return s
}
