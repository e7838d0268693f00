package main

import (
	"math"
	"os"

	"optibfm/tflite/roof"
)

// roofSection measures the limits of one core, in turn with everything else.
type roofSection struct {
	rows   []*timed
	levels []roof.Level
	peak   limit
	reads  []limit // one a level
}

// limit is a row that does a known amount of work.
type limit struct {
	row  *timed
	unit float64 // of work in a call: operations or bytes
}

// rate is in units a nanosecond: GFLOP/s or GB/s.
func (l limit) rate() float64 { return l.unit / l.row.p50() }

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
		buffer := roof.NewBuffer(l.Buffer)
		read := limit{newTimed("read "+l.Name, func() error { roof.Read(buffer); return nil }), float64(roof.Read(buffer))}
		r.reads = append(r.reads, read)
		r.rows = append(r.rows, read.row)
	}
	return nil
}

// bandwidth is that of the nearest level that holds so many bytes.
func (r *roofSection) bandwidth(bytes float64) (name string, rate float64) {
	level := roof.Of(r.levels, int64(bytes))
	for i, l := range r.levels {
		if l == level {
			return l.Name, r.reads[i].rate()
		}
	}
	return "", math.NaN() // Of returns one of them
}

// stage is the evaluation of one of a native bundle's networks beside the limits.
type stage struct {
	Name       string  `json:"name"`
	DenseFLOPs int64   `json:"dense_flops"` // with nothing shared or left out
	FLOPs      float64 `json:"flops"`       // that were done
	Bytes      float64 `json:"bytes"`       // that the products read and wrote
	GFLOPS     float64 `json:"gflops"`
	GBS        float64 `json:"gbs"`
	Level      string  `json:"level"` // the nearest that holds the weights that were read
	RoofGFLOPS float64 `json:"roof_gflops"`
	OfRoof     float64 `json:"of_roof"`
	Bound      string  `json:"bound"` // peak, or the level whose bandwidth is the roof
}

func (b *benchmark) stages() []stage {
	native := b.native()
	if native == nil {
		return nil
	}
	flops, members := native.Architecture.FLOPs(), native.Dims().Ensemble
	return []stage{
		b.stage("φ", b.control.phi, flops.Phi, flops.Phi),
		b.stage("π", b.control.act, flops.Act, flops.Act),
		b.stage("search", b.search.one, flops.Search(b.searched(), members), flops.Search(1, members)),
	}
}

// stage sets a row beside the limits. one are the operations of its networks for
// one row of inputs: two for each weight of four bytes.
func (b *benchmark) stage(name string, row *timed, dense, one int64) stage {
	s := stage{Name: name, DenseFLOPs: dense, FLOPs: row.flops(), Bytes: row.traffic()}
	s.GFLOPS, s.GBS = s.FLOPs/row.p50(), s.Bytes/row.p50()
	level, bandwidth := b.roof.bandwidth(min(s.Bytes, float64(2*one)))
	s.Level, s.Bound, s.RoofGFLOPS = level, "peak", b.roof.peak.rate()
	if slope := s.FLOPs / s.Bytes * bandwidth; slope < s.RoofGFLOPS {
		s.Bound, s.RoofGFLOPS = level, slope
	}
	s.OfRoof = s.GFLOPS / s.RoofGFLOPS
	return s
}
