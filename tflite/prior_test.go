package tflite

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"optibfm/internal/errtest"

	"optibfm/internal/fatal"
)

// tinyPrior returns a prior for the model of tiny.
func tinyPrior() Prior {
	return Prior{
		Mean: []float64{0.5, 0, -1}, Moment: []float64{2, 0.5, 0, 0.5, 1, 0.25, 0, 0.25, 3},
		Family: "ramps & bumps", Rewards: 4000, Seed: 1 << 63, States: 50, Isotropic: 0.1, Width: 1.5, P50: 0.7, P90: 2,
	}
}

// residualPrior is tinyPrior with two residuals.
func residualPrior() Prior {
	p := tinyPrior()
	p.Residuals = Residuals{
		Terms: []Term{{{0, Bump, 1, 0.5}, {1, Ramp, -2, -4}, {0, Sigmoid, 0, 1}}, {{1, Sigmoid, 3, 2}}},
		Mean:  []float64{0.25, 0.5}, Fit: []float64{1, 2, 3, 4, 5, 6},
	}
	p.Moment = []float64{
		2, 0, 0, 0, 1,
		0, 1, 0, 0, 0,
		0, 0, 2, 0.5, 0,
		0, 0, 0.5, 1, 0.25,
		1, 0, 0, 0.25, 3,
	}
	p.Examples = []float32{1, 2, 3, 4, 5, -1, -2, -3, -4, -5}
	return p
}

func priorTensors(p Prior) map[string]Tensor { return p.tensors() }

// withPriorFile encodes a bundle with a prior and with the right hash of a prior's file.
func withPriorFile(t testing.TB, p Prior, file []byte) fstest.MapFS {
	t.Helper()
	m, tensors := tiny()
	fsys := files(t, m, encodeWeights(t, tensors))
	p.Hash = hashOf(file)
	text, err := encodeManifest(m, hashOf(fsys[weightsFileName].Data), &p)
	fatal.If(t, err)
	fsys[manifestFileName].Data, fsys[priorFileName] = text, &fstest.MapFile{Data: file}
	return fsys
}

// tinyBundle writes the bundle of tiny.
func tinyBundle(t *testing.T) (dir string) {
	t.Helper()
	m, tensors := tiny()
	dir = filepath.Join(t.TempDir(), "bundle")
	fatal.If(t, Save(dir, m, tensors))
	return dir
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	fatal.If(t, err)
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestSavePrior_LoadReturnsThePrior(t *testing.T) {
	dir := tinyBundle(t)
	before, err := LoadDir(dir)
	if err != nil || before.Prior != nil {
		t.Fatalf("%v, prior %v", err, before.Prior)
	}
	other := tinyPrior()
	other.Mean, other.Width = []float64{0, 0, 0}, 3
	copied := filepath.Join(t.TempDir(), "copy")
	for _, step := range []struct {
		out string
		p   Prior
	}{{copied, tinyPrior()}, {"", other}, {"", residualPrior()}, {"", tinyPrior()}} {
		fatal.If(t, SavePrior(dir, step.out, step.p))
		in := dir
		if step.out != "" {
			in = step.out
		}
		b, err := LoadDir(in)
		fatal.If(t, err)
		step.p.Hash = b.Prior.Hash
		if len(step.p.Hash) != 64 || !reflect.DeepEqual(*b.Prior, step.p) {
			t.Errorf("loaded %+v, want %+v", b.Prior, step.p)
		}
		if b.Hash != before.Hash || !reflect.DeepEqual(b.Manifest, before.Manifest) {
			t.Errorf("the prior changed the model: %+v, want %+v", b.Manifest, before.Manifest)
		}
		if want := []string{manifestFileName, weightsFileName, priorFileName}; !slices.Equal(names(t, in), want) {
			t.Errorf("files %v, want %v", names(t, in), want)
		}
	}
}

func TestSavePrior_GivesSavedModelsAPrior(t *testing.T) {
	dir, before := savedBundle(t)
	copied := filepath.Join(t.TempDir(), "copy")
	for _, out := range []string{copied, ""} {
		fatal.If(t, SavePrior(dir, out, tinyPrior()))
	}
	for _, in := range []string{copied, dir} {
		m, err := LoadSavedModel(in)
		fatal.If(t, err)
		if m.Hash != before.Hash || m.Prior == nil || !slices.Equal(m.Prior.Moment, tinyPrior().Moment) {
			t.Errorf("%s: hash %s, want %s, prior %+v", in, m.Hash, before.Hash, m.Prior)
		}
	}
	put(t, filepath.Join(dir, priorFileName), "damaged")
	errtest.Contains(t, errtest.Of(LoadSavedModel(dir)), priorFileName, "damaged prior")
}

func TestSavePrior_FailureLeavesAValidBundle(t *testing.T) {
	dir := tinyBundle(t)
	fatal.If(t, SavePrior(dir, "", tinyPrior()))
	wrong := tinyPrior()
	wrong.Mean = wrong.Mean[:2]
	errtest.Contains(t, SavePrior(dir, "", wrong), "2 elements", "wrong size")
	errtest.Contains(t, SavePrior(dir, dir, tinyPrior()), "has files in it", "not empty")
	errtest.Contains(t, SavePrior(t.TempDir(), "", tinyPrior()), manifestFileName, "no bundle")
	if b, err := LoadDir(dir); err != nil || b.Prior == nil {
		t.Errorf("after refused priors: %v", err)
	}

	// The second of three renames fails, as after a loss of power between them.
	fatal.If(t, os.Remove(filepath.Join(dir, priorFileName)))
	put(t, filepath.Join(dir, priorFileName, "x"), "")
	errtest.NotNil(t, SavePrior(dir, "", tinyPrior()), "no error for a folder in the place of the prior")
	b, err := LoadDir(dir)
	if err != nil || b.Prior != nil {
		t.Errorf("interrupted: %v, want a bundle without a prior", err)
	}
	if left := names(t, dir); len(left) != 3 {
		t.Errorf("left behind: %v", left)
	}
}

func TestLoad_RejectsDamagedPrior(t *testing.T) {
	described := func(change func(p *Prior)) fstest.MapFS {
		p := tinyPrior()
		change(&p)
		return withPriorFile(t, p, encodeWeights(t, priorTensors(tinyPrior())))
	}
	tensor := func(change func(tensors map[string]Tensor)) fstest.MapFS {
		p := tinyPrior()
		tensors := priorTensors(p)
		change(tensors)
		return withPriorFile(t, p, encodeWeights(t, tensors))
	}
	moment := func(i int, x float64) fstest.MapFS {
		return tensor(func(ts map[string]Tensor) { ts[priorMomentName].F64[i] = x })
	}
	file := func(change func(fsys fstest.MapFS)) fstest.MapFS {
		fsys := described(func(*Prior) {})
		change(fsys)
		return fsys
	}
	text := func(from, to string) fstest.MapFS {
		return file(func(fsys fstest.MapFS) {
			f := fsys[manifestFileName]
			f.Data = bytes.Replace(f.Data, []byte(from), []byte(to), 1)
		})
	}
	residual := func(name string, i int, x float64) fstest.MapFS {
		p := residualPrior()
		tensors := p.tensors()
		if name == examplesName {
			tensors[name].F32[i] = float32(x)
		} else {
			tensors[name].F64[i] = x
		}
		return withPriorFile(t, residualPrior(), encodeWeights(t, tensors))
	}
	single := Tensor{Shape: []int{3}, F32: []float32{0, 0, 0}}
	for name, c := range map[string]struct {
		fsys  fstest.MapFS
		words string
	}{
		"no file":        {file(func(fsys fstest.MapFS) { delete(fsys, priorFileName) }), "model prior"},
		"another file":   {file(func(fsys fstest.MapFS) { fsys[priorFileName].Data[80] ^= 1 }), "sha256 is"},
		"not a tensor":   {withPriorFile(t, tinyPrior(), []byte("hello")), "truncated"},
		"no mean":        {tensor(func(ts map[string]Tensor) { delete(ts, priorMeanName) }), `"phi_mean" is missing`},
		"other tensor":   {tensor(func(ts map[string]Tensor) { ts["x"] = single }), `unknown tensor "x"`},
		"wrong shape":    {tensor(func(ts map[string]Tensor) { ts[priorMomentName] = single }), "has shape [3]"},
		"float32":        {tensor(func(ts map[string]Tensor) { ts[priorMeanName] = single }), "not F64"},
		"infinite mean":  {tensor(func(ts map[string]Tensor) { ts[priorMeanName].F64[1] = math.Inf(1) }), "not finite"},
		"NaN":            {moment(4, math.NaN()), "not finite"},
		"asymmetric":     {moment(1, -0.5), "not symmetric"},
		"indefinite":     {moment(0, 0.1), "not positive definite"},
		"zero":           {moment(8, 0), "not positive definite"},
		"no residuals":   {tensor(func(ts map[string]Tensor) { ts[residualFitName] = single }), "unknown tensor"},
		"no such input":  {residual(residualTermsName, 0, 9), "channel 9"},
		"half an input":  {residual(residualTermsName, 12, 0.5), "whole number"},
		"no such shape":  {residual(residualTermsName, 1, 3), "shape 3"},
		"no factor":      {residual(residualTermsName, 12, -1), "channel -1"},
		"large slope":    {residual(residualTermsName, 3, 1e39), "not finite"},
		"infinite fit":   {residual(residualFitName, 2, math.Inf(1)), "not finite"},
		"NaN example":    {residual(examplesName, 3, math.NaN()), "not finite"},
		"no family":      {described(func(p *Prior) { p.Family = "" }), "family is empty"},
		"no rewards":     {described(func(p *Prior) { p.Rewards = 0 }), "rewards is 0"},
		"no states":      {described(func(p *Prior) { p.States = -1 }), "states -1"},
		"large share":    {described(func(p *Prior) { p.Isotropic = 1.5 }), "isotropic is 1.5"},
		"no width":       {described(func(p *Prior) { p.Width = 0 }), "width is 0"},
		"percentiles":    {described(func(p *Prior) { p.P50 = 3 }), "p50 is 3"},
		"negative seed":  {text(`"seed": 9223372036854775808`, `"seed": -1`), "seed"},
		"unknown key":    {text(`"family"`, `"families"`), `unknown key "families"`},
		"missing key":    {text(`"width": 1.5,`, ``), "missing keys: width"},
		"null":           {text(`"width": 1.5`, `"width": null`), "null"},
		"no description": {text(`"prior": {`, `"prior": 1, "x": {`), "prior: 1, want a JSON object"},
	} {
		errtest.Contains(t, errtest.Of(Load(c.fsys)), c.words, name)
	}
}

func TestWithoutResiduals_KeepsThePriorOfZ(t *testing.T) {
	p := residualPrior()
	want := tinyPrior()
	want.Moment = []float64{2, 0.5, 0, 0.5, 1, 0.25, 0, 0.25, 3}
	want.Examples = []float32{3, 4, 5, -3, -4, -5}
	if got := p.WithoutResiduals(); !reflect.DeepEqual(*got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// FuzzPriorNeverPanics parses a description and a file, and validates what passes.
func FuzzPriorNeverPanics(f *testing.F) {
	p := tinyPrior()
	text, err := json.Marshal(p.file())
	fatal.If(f, err)
	f.Add(text, encodeWeights(f, priorTensors(p)))
	f.Add(text, encodeWeights(f, priorTensors(residualPrior())))
	f.Add([]byte(strings.Replace(string(text), "4000", "null", 1)), []byte{})
	f.Fuzz(func(t *testing.T, text, file []byte) {
		var p *Prior
		if err := parsePrior(text, &p); err != nil {
			return
		}
		if err := p.decode(file, 2, 3); err == nil && p.Validate(2, 3) != nil {
			t.Errorf("an invalid prior passed: %+v", p)
		}
	})
}
