package tflite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"gonum.org/v1/gonum/mat"

	"optibfm/internal/safefile"
)

// Tensors of a prior. The residuals' are missing without residuals.
const (
	priorMeanName     = "phi_mean"
	priorMomentName   = "task_moment"
	residualMeanName  = "residual_mean"
	residualFitName   = "residual_fit"
	residualTermsName = "residual_terms"
	examplesName      = "task_examples"
)

// maxExamples is the largest number of examples of a prior.
const maxExamples = 4096

// Prior is a distribution of the rewards of tasks of a model,
//
//	r(s) = gᵀe(s) + zᵀ(φ(s) - μ),   (g, z) ~ N(0, Moment)
//
// with residuals e [K]. Package taskprior estimates it from observations.
type Prior struct {
	Mean      []float64 // μ = E[φ], [d]
	Residuals Residuals // K of them, often 0
	Moment    []float64 // of (g, z), shrunk and widened, [K+d, K+d] row-major, positive definite
	Examples  []float32 // (g, z) of random rewards, [H, K+d] row-major, often empty
	Hash      string    // sha256 of the prior's file, hexadecimal; set by loading

	Family    string  // random rewards of the estimate, for people
	Rewards   int     // number of them, at least 1
	Seed      uint64  // of them
	States    int     // number of the observations, at least 1
	Isotropic float64 // share of the identity in Moment, 0 to 1
	Width     float64 // factor in Moment, above 0
	P50, P90  float64 // percentiles of u²/d = zᵀM⁻¹z/d, M: the block of z in Moment, of rewards left out
}

// Validate returns an error for the first invalid value of a prior for obs channels and d features.
// A nil prior is valid.
func (p *Prior) Validate(obs, d int) error {
	if p == nil {
		return nil
	}
	if err := p.validateDescription(); err != nil {
		return err
	}
	if err := p.Residuals.Validate(obs, d); err != nil {
		return err
	}
	n := len(p.Residuals.Terms) + d
	if len(p.Mean) != d || len(p.Moment) != n*n {
		return fmt.Errorf("%s has %d elements and %s %d, want %d and %d",
			priorMeanName, len(p.Mean), priorMomentName, len(p.Moment), d, n*n)
	}
	if len(p.Examples)%n != 0 || len(p.Examples) > maxExamples*n {
		return fmt.Errorf("%s has %d elements, want a multiple of %d and at most %d of them",
			examplesName, len(p.Examples), n, maxExamples)
	}
	for i, x := range p.Examples {
		if x-x != 0 {
			return fmt.Errorf("tensor %q: element %d is not finite", examplesName, i)
		}
	}
	for i, x := range p.Mean {
		if x-x != 0 {
			return fmt.Errorf("tensor %q: element %d is not finite", priorMeanName, i)
		}
	}
	return p.validateMoment(n)
}

// WithoutResiduals returns the prior of z alone.
func (p *Prior) WithoutResiduals() *Prior {
	only := *p
	d, n := len(p.Mean), len(p.Residuals.Terms)+len(p.Mean)
	only.Residuals, only.Moment, only.Examples = Residuals{}, nil, nil
	for i := n - d; i < n; i++ {
		only.Moment = append(only.Moment, p.Moment[i*n+n-d:(i+1)*n]...)
	}
	for e := p.Examples; len(e) > 0; e = e[n:] {
		only.Examples = append(only.Examples, e[n-d:n]...)
	}
	return &only
}

func (p *Prior) validateDescription() error {
	finite := func(x float64) bool { return x-x == 0 }
	switch {
	case p.Family == "":
		return fmt.Errorf("prior: family is empty")
	case p.Rewards < 1 || p.States < 1:
		return fmt.Errorf("prior: rewards is %d and states %d, want at least 1", p.Rewards, p.States)
	case !(p.Isotropic >= 0 && p.Isotropic <= 1):
		return fmt.Errorf("prior: isotropic is %g, want 0 to 1", p.Isotropic)
	case !(p.Width > 0) || !finite(p.Width):
		return fmt.Errorf("prior: width is %g, want above 0", p.Width)
	case !(p.P50 >= 0 && p.P50 <= p.P90) || !finite(p.P90):
		return fmt.Errorf("prior: p50 is %g and p90 %g, want 0 or more in ascending order", p.P50, p.P90)
	}
	return nil
}

func (p *Prior) validateMoment(d int) error {
	m := p.Moment
	for i, x := range m {
		if x-x != 0 {
			return fmt.Errorf("tensor %q: element %d is not finite", priorMomentName, i)
		}
	}
	for i := range d {
		for j := range i {
			x, y := m[i*d+j], m[j*d+i]
			if math.Abs(x-y) > 1e-12*math.Sqrt(math.Abs(m[i*d+i]*m[j*d+j])) {
				return fmt.Errorf("tensor %q is not symmetric (%g at [%d, %d], %g at [%d, %d])",
					priorMomentName, x, i, j, y, j, i)
			}
		}
	}
	var chol mat.Cholesky
	if !chol.Factorize(mat.NewSymDense(d, m)) {
		return fmt.Errorf("tensor %q is not positive definite", priorMomentName)
	}
	return nil
}

// priorFile has the keys of a manifest's prior in their order.
type priorFile struct {
	Family    string  `json:"family"`
	Rewards   int     `json:"rewards"`
	Seed      uint64  `json:"seed"`
	States    int     `json:"states"`
	Isotropic float64 `json:"isotropic"`
	Width     float64 `json:"width"`
	P50       float64 `json:"p50"`
	P90       float64 `json:"p90"`
	SHA256    string  `json:"sha256"`
}

func (p *Prior) file() *priorFile {
	if p == nil {
		return nil
	}
	return &priorFile{p.Family, p.Rewards, p.Seed, p.States, p.Isotropic, p.Width, p.P50, p.P90, p.Hash}
}

// parsePrior parses the value of a manifest's prior.
func parsePrior(raw []byte, into **Prior) error {
	p := new(Prior)
	err := decodeObject(raw, fields{
		"family": &p.Family, "rewards": &p.Rewards, "seed": &p.Seed, "states": &p.States, "isotropic": &p.Isotropic,
		"width": &p.Width, "p50": &p.P50, "p90": &p.P90, "sha256": &p.Hash,
	})
	*into = p
	return err
}

// optionalPrior is the field of a manifest.
func optionalPrior(p **Prior) func(json.RawMessage) error {
	return func(raw json.RawMessage) error { return parsePrior(raw, p) }
}

// read reads and verifies the file of a prior for obs channels and d features. A nil prior has
// none.
func (p *Prior) read(fsys fs.FS, obs, d int) error {
	if p == nil {
		return nil
	}
	largest := int64(d + maxResiduals)
	row := 16*(largest+4*maxFactors+2) + 4*maxExamples
	raw, err := safefile.ReadFile(fsys, priorFileName, maxHeaderBytes+largest*row)
	if err != nil {
		return fmt.Errorf("%w; %s", err, priorFix)
	}
	if got := hashOf(raw); got != p.Hash {
		return fmt.Errorf("%s: sha256 is %s, want %s (%s); %s", priorFileName, got, p.Hash, manifestFileName, priorFix)
	}
	if err := p.decode(raw, obs, d); err != nil {
		return fmt.Errorf("%s: %w", priorFileName, err)
	}
	return nil
}

const priorFix = `copy the bundle again, or remove the key "prior" from ` + manifestFileName +
	" and estimate it with optibfm model prior"

// shapes returns the shapes of the tensors of a prior with d features, k residuals and a number of
// examples.
func (p *Prior) shapes(k, d, examples int) map[string][]int {
	shapes := map[string][]int{priorMeanName: {d}, priorMomentName: {k + d, k + d}}
	if k > 0 {
		shapes[residualMeanName], shapes[residualFitName] = []int{k}, []int{k, d}
		shapes[residualTermsName] = []int{k, maxFactors, 4}
	}
	if examples > 0 {
		shapes[examplesName] = []int{examples, k + d}
	}
	return shapes
}

func (p *Prior) decode(raw []byte, obs, d int) error {
	tensors, err := parseSafetensors(raw)
	if err != nil {
		return err
	}
	k := len(tensors[residualMeanName].F64)
	shapes := p.shapes(k, d, len(tensors[examplesName].F32)/(k+d))
	if err := checkShapes(shapes, tensors); err != nil {
		return err
	}
	for name := range shapes {
		if name != examplesName && tensors[name].F64 == nil {
			return fmt.Errorf("tensor %q is not F64", name)
		}
	}
	p.Mean, p.Moment = tensors[priorMeanName].F64, tensors[priorMomentName].F64
	terms, err := decodeTerms(tensors[residualTermsName].F64)
	if err != nil {
		return err
	}
	p.Examples = tensors[examplesName].F32
	p.Residuals = Residuals{terms, tensors[residualMeanName].F64, tensors[residualFitName].F64}
	return p.Validate(obs, d)
}

// SavePrior gives a bundle a prior, or replaces its prior. out is "" for the bundle in dir itself,
// or a new or empty directory for a copy. A copy is written wholly or not at all. In place, each
// file is replaced in one step, and the directory holds a valid bundle between the steps.
func SavePrior(dir, out string, p Prior) error {
	if out != "" {
		return writeDir(out, func(temporary string) error {
			if err := copyBundle(temporary, dir); err != nil {
				return err
			}
			return savePrior(temporary, p)
		})
	}
	if err := savePrior(dir, p); err != nil {
		return fmt.Errorf("tflite: %s: %w", dir, err)
	}
	return nil
}

func savePrior(dir string, p Prior) error {
	var raw bytes.Buffer
	if err := writeSafetensors(&raw, p.tensors()); err != nil {
		return err
	}
	p.Hash = hashOf(raw.Bytes())
	text, err := safefile.ReadFile(safefile.Dir(dir), manifestFileName, maxHeaderBytes)
	if err != nil {
		return err
	}
	without, err := withPrior(text, nil)
	if err != nil {
		return err
	}
	with, err := withPrior(text, &p)
	if err != nil {
		return err
	}
	// The prior and the manifest of the directory always agree.
	return replaceFiles(dir, []namedContent{
		{manifestFileName, without}, {priorFileName, raw.Bytes()}, {manifestFileName, with},
	})
}

func (p *Prior) tensors() map[string]Tensor {
	tensors := make(map[string]Tensor)
	values := map[string][]float64{
		priorMeanName: p.Mean, priorMomentName: p.Moment, residualMeanName: p.Residuals.Mean,
		residualFitName: p.Residuals.Fit, residualTermsName: p.Residuals.Numbers(),
	}
	k, d := len(p.Residuals.Terms), len(p.Mean)
	for name, shape := range p.shapes(k, d, len(p.Examples)/max(k+d, 1)) {
		tensors[name] = Tensor{Shape: shape, F64: values[name]}
	}
	if examples, ok := tensors[examplesName]; ok {
		examples.F32 = p.Examples
		tensors[examplesName] = examples
	}
	return tensors
}

type namedContent struct {
	name    string
	content []byte
}

// replaceFiles replaces files of a directory in their order, after it has written all of them.
func replaceFiles(dir string, files []namedContent) (err error) {
	temporary, err := os.MkdirTemp(dir, ".prior-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	written := func(i int) string { return filepath.Join(temporary, strconv.Itoa(i)) }
	for i, f := range files {
		if err := writeSynced(written(i), bytes.NewReader(f.content)); err != nil {
			return err
		}
	}
	for i, f := range files {
		if err := os.Rename(written(i), filepath.Join(dir, f.name)); err != nil {
			return err
		}
	}
	return nil
}

// copyBundle copies the files of a bundle, without its prior, into a directory.
func copyBundle(into, from string) error {
	text, err := safefile.ReadFile(safefile.Dir(from), manifestFileName, maxHeaderBytes)
	if err != nil {
		return err
	}
	manifest := writeSynced(filepath.Join(into, manifestFileName), bytes.NewReader(text))
	if formatOf(text) == savedFormatName {
		_, folder, err := parseSavedManifest(text)
		if err != nil {
			return fmt.Errorf("%s: %w", manifestFileName, err)
		}
		return errors.Join(manifest, copySavedModel(filepath.Join(into, folder), filepath.Join(from, folder)))
	}
	weights, size, err := safefile.Open(filepath.Join(from, weightsFileName))
	if err != nil {
		return err
	}
	defer weights.Close()
	return errors.Join(manifest, writeSynced(filepath.Join(into, weightsFileName), io.LimitReader(weights, size)))
}

// withPrior returns a manifest with a valid prior, or with none.
func withPrior(text []byte, p *Prior) ([]byte, error) {
	encoded, err := withAnyPrior(text, p)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", manifestFileName, err)
	}
	return encoded, nil
}

func withAnyPrior(text []byte, p *Prior) ([]byte, error) {
	if formatOf(text) == savedFormatName {
		m, folder, err := parseSavedManifest(text)
		if err != nil {
			return nil, err
		}
		m.Prior = p
		if err := p.Validate(m.Sizes.Obs, m.Sizes.Latent); err != nil {
			return nil, err
		}
		return encodeSavedManifest(*m, folder)
	}
	b, err := parseManifest(text)
	if err != nil {
		return nil, err
	}
	if err := p.Validate(b.Architecture.Obs, b.Architecture.Latent); err != nil {
		return nil, err
	}
	return encodeManifest(b.Manifest, b.Hash, p)
}
