package review

import (
	"encoding/json"
	"io"
	"math"

	"optibfm/controller"
	"optibfm/flightlog"
)

type replayReport struct {
	File       string             `json:"file"`
	OK         bool               `json:"ok"`
	Marked     bool               `json:"marked"` // a run may remove the log
	Ticks      uint64             `json:"ticks"`
	Verified   uint64             `json:"verified"`
	Differing  uint64             `json:"differing"`
	First      *replayDifference  `json:"first_difference,omitempty"`
	Unverified uint64             `json:"unverified"`
	Gaps       []string           `json:"gaps,omitempty"`
	Damage     []string           `json:"damage,omitempty"`
	Lacks      string             `json:"unverifiable,omitempty"` // why no tick can be verified
	Cut        string             `json:"cut,omitempty"`
	Skipped    uint64             `json:"skipped"`
	Dropped    uint64             `json:"dropped"`
	DurationS  float64            `json:"duration_s"`
	Asked      uint64             `json:"asked"`
	Answered   uint64             `json:"answered"`
	Expired    uint64             `json:"expired"`
	Labels     map[string]uint64  `json:"labels"`
	Undone     uint64             `json:"undone"`
	Returns    []float64          `json:"returns,omitempty"`
	Late       *replayPercentiles `json:"late_us,omitempty"`
	Busy       *replayPercentiles `json:"busy_us,omitempty"`
	Faults     map[string]uint64  `json:"faults,omitempty"`
	EndedBy    string             `json:"ended_by,omitempty"` // the cause of a stop that ended the run
	Z          []float64          `json:"z,omitempty"`
	ZNorm      *float64           `json:"z_norm"` // null where the belief is unknown
	WhatIf     *replayAnswer      `json:"what_if,omitempty"`
}

type replayDifference struct {
	Tick     uint64 `json:"tick"`
	Field    string `json:"field"`
	Logged   string `json:"logged"`
	Computed string `json:"computed"`
}

type replayPercentiles struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

type replayAnswer struct {
	Kappa      float64   `json:"kappa"`
	PerMinute  float64   `json:"labels_per_minute,omitempty"`
	Lambda     float64   `json:"lambda"`
	Rho        float64   `json:"rho"`
	Beta       *float64  `json:"beta,omitempty"`
	Asked      uint64    `json:"asked"`
	ByLabel    uint64    `json:"answered_by_label"`
	ByReward   uint64    `json:"answered_by_reward"`
	CantTell   uint64    `json:"cant_tell"`
	Unanswered uint64    `json:"unanswered"`
	Unasked    uint64    `json:"unasked_presses"`
	Labels     uint64    `json:"labels"`
	Missing    uint64    `json:"missing_periods"`
	Z          []float64 `json:"z"`
	ZNorm      float64   `json:"z_norm"`
	Cosine     *float64  `json:"cosine,omitempty"`
	MeanBonus  *float64  `json:"mean_bonus,omitempty"`
}

func printJSON(out io.Writer, path string, r flightlog.Result, answer *flightlog.Answer, marked bool) error {
	s := r.Summary
	report := replayReport{
		File: path, OK: r.OK(), Marked: marked, Ticks: s.Ticks, Verified: r.Verified, Differing: r.Differing,
		Unverified: r.Unverified,
		Skipped:    s.Skipped, Dropped: s.Dropped, DurationS: s.Duration.Seconds(),
		Asked: s.Asked, Answered: s.Answered, Expired: s.Expired, Undone: s.Undone,
		Labels: make(map[string]uint64), Faults: make(map[string]uint64), Z: r.Z, ZNorm: finiteOrNil(r.ZNorm),
		EndedBy: s.End,
	}
	if d := r.First; d != nil {
		report.First = &replayDifference{d.Tick, d.Field, d.Logged, d.Computed}
	}
	for _, g := range r.Gaps {
		report.Gaps = append(report.Gaps, g.String())
	}
	for _, err := range r.Damage {
		report.Damage = append(report.Damage, err.Error())
	}
	if r.Lacks != nil {
		report.Lacks = r.Lacks.Error()
	}
	if r.Cut != nil {
		report.Cut = stateText(r.Cut, nil)
	}
	for o, n := range s.Labels {
		report.Labels[o.String()] = n
	}
	for f, n := range s.Faults {
		report.Faults[f.String()] = n
	}
	for _, e := range s.Episodes {
		report.Returns = append(report.Returns, e.Return)
	}
	if s.Late.Max > 0 {
		report.Late, report.Busy = inMicroseconds(s.Late), inMicroseconds(s.Busy)
	}
	if answer != nil {
		report.WhatIf = answerJSON(answer)
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

func inMicroseconds(p flightlog.Percentiles) *replayPercentiles {
	return &replayPercentiles{
		float64(p.P50) / 1e3, float64(p.P99) / 1e3, float64(p.P999) / 1e3, float64(p.Max) / 1e3,
	}
}

func answerJSON(a *flightlog.Answer) *replayAnswer {
	report := &replayAnswer{
		Kappa: a.Config.Gate.Kappa, PerMinute: a.Config.Gate.LabelsPerMinute,
		Lambda: a.Config.Lambda, Rho: a.Config.Rho,
		Asked: a.Asked, ByLabel: a.ByLabel, ByReward: a.ByReward, CantTell: a.CantTell, Unanswered: a.Unanswered,
		Unasked: a.Unasked, Labels: a.Labels, Missing: a.Missing,
		Z: a.Z, ZNorm: a.ZNorm, Cosine: finiteOrNil(a.Cosine), MeanBonus: finiteOrNil(a.MeanBonus),
	}
	if a.Config.Beta.Schedule == controller.Constant {
		report.Beta = &a.Config.Beta.Value
	}
	return report
}

// finiteOrNil returns nil for numbers that JSON does not have.
func finiteOrNil(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
