package bundle

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"optibfm/internal/setup"
	"optibfm/internal/shell"
	"optibfm/tflite"
)

// Describe prints the description of the model in a folder, or of embedded:rover.
func Describe(w io.Writer, name string) error {
	m, err := setup.OpenModel(name)
	if err != nil {
		return err
	}
	t := table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	d := m.Dims()
	t.row("name", "%s", m.Title())
	t.row("sha256", "%s", m.Fingerprint())
	t.row("sizes", "observation %d, action %d, d %d, ensemble %d", d.Obs, d.Action, d.Latent, d.Ensemble)
	t.prior(m.Prior(), name)
	switch m := m.(type) {
	case setup.NativeModel:
		t.networks(m.Bundle)
		t.training(m.Gamma, m.Observation, m.Action, m.Provenance)
	case setup.SavedModel:
		t.row("evaluated by", "TensorFlow only, from the SavedModel %s", m.Dir)
		t.row("signatures", "φ %s, π %s, ψ %s", m.Signatures.Phi, m.Signatures.Policy, m.Signatures.Psi)
		t.row("normalises", "z %t", m.NormZ)
		t.training(m.Gamma, m.Observation, m.Action, m.Provenance)
	}
	return t.Flush()
}

// table has a name and a text in each row.
type table struct{ *tabwriter.Writer }

func (t table) row(name, format string, args ...any) {
	fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...))
}

// networks adds the architecture of a native model.
func (t table) networks(b *tflite.Bundle) {
	a := b.Architecture
	for _, n := range []struct {
		name                      string
		hidden, layers, embedding int
		residual                  bool
		inputs                    []string
	}{
		{"F", a.F.Hidden, a.F.HiddenLayers, a.F.EmbeddingLayers, a.F.Residual, a.F.Inputs},
		{"actor", a.Actor.Hidden, a.Actor.HiddenLayers, a.Actor.EmbeddingLayers, a.Actor.Residual, a.Actor.Inputs},
	} {
		if n.hidden == 0 {
			t.row(n.name, "none: no ψ, so use controller.strategy: thompson")
			continue
		}
		kind := "simple"
		if n.residual {
			kind = "residual"
		}
		t.row(n.name, "%s, hidden %d, hidden layers %d, embedding layers %d%s",
			kind, n.hidden, n.layers, n.embedding, reads(n.inputs))
	}
	t.row("B", "hidden %d, hidden layers %d, normalised %t%s", a.B.Hidden, a.B.HiddenLayers, a.B.Norm, reads(a.B.Inputs))
	t.row("parameters", "%d", a.Parameters())
	if len(a.Groups) > 0 {
		t.row("groups", "%s", groupList(a))
	}
	normalised := a.NormObs || slices.ContainsFunc(a.Groups, func(g tflite.Group) bool { return g.NormObs })
	t.row("normalises", "observations %t, z %t", normalised, a.NormZ)
	t.row("layernorm eps", "%g", b.LayerNormEps)
	covariance := "missing; add it with " + shell.ThisProgram().Command("model", "import")
	if b.HasCovariance() {
		covariance = "present"
	}
	t.row("Cov B", "%s", covariance)
}

// reads lists the groups that a network reads.
func reads(groups []string) string {
	if len(groups) == 0 {
		return ""
	}
	return ", reads " + strings.Join(groups, " ")
}

// training adds the optional part of any bundle.
func (t table) training(gamma float64, observation, action []tflite.Channel, provenance map[string]string) {
	if gamma > 0 {
		t.row("gamma", "%g", gamma)
	}
	if len(observation) > 0 {
		t.row("observation", "%s", channelList(observation))
	}
	if len(action) > 0 {
		t.row("action", "%s", channelList(action))
	}
	for _, key := range slices.Sorted(maps.Keys(provenance)) {
		t.row(key, "%s", provenance[key])
	}
}

func channelList(channels []tflite.Channel) string {
	var words []string
	for _, c := range channels {
		word := c.Name
		if c.Unit != "" {
			word += " [" + c.Unit + "]"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}
