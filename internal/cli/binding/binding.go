package binding

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"optibfm/internal/plaintext"
	"optibfm/internal/safefile"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/panel"
)

// Options select the device, buttons and axis to bind.
type Options struct {
	Device  string        // listen only to devices with this in their name; "" for all
	Roles   []string      // of RoleNames
	Axis    bool          // bind a stick or slider too
	Timeout time.Duration // for each press
	Out     string        // file to write, which must not exist; "" for standard output
}

// Run asks for each press on prompts and writes the configuration.
func Run(ctx context.Context, o Options, out, prompts io.Writer) error {
	roles, err := parseRoles(o.Roles)
	if err != nil {
		return err
	}
	cfg, err := evdev.Bind(ctx, evdev.BindOptions{
		System: evdev.Local, Device: o.Device, Roles: roles, Axis: o.Axis, Timeout: o.Timeout,
		Say: func(text string) { fmt.Fprintln(prompts, plaintext.Clean(text)) },
	})
	if err != nil {
		return fmt.Errorf("label bind: %w", err)
	}
	text := yaml(cfg)
	if o.Out == "" {
		_, err := io.WriteString(out, text)
		return err
	}
	return writeNew(o.Out, text, prompts)
}

// writeNew writes a file that must not exist.
func writeNew(path, text string, prompts io.Writer) error {
	err := safefile.WriteNew(path, 0o644, []byte(text))
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("label bind: %s: the file exists; choose another name, or move it away", path)
	}
	if err != nil {
		return fmt.Errorf("label bind: %w", err)
	}
	fmt.Fprintf(prompts, "%s: written; put it into your configuration\n", path)
	return nil
}

// RoleNames lists the roles of buttons.
func RoleNames() (names []string) {
	for _, r := range panel.Roles() {
		names = append(names, r.String())
	}
	return names
}

// parseRoles reads the names of roles.
func parseRoles(names []string) (roles []panel.Role, err error) {
	known := RoleNames()
	for _, name := range names {
		i := slices.Index(known, name)
		if i < 0 {
			return nil, fmt.Errorf("label bind: --roles: unknown (%q); use %s", name, strings.Join(known, ", "))
		}
		roles = append(roles, panel.Roles()[i])
	}
	return roles, nil
}

// yaml is the section of a configuration that binds a device. It leaves out defaults.
func yaml(cfg evdev.Config) string {
	var b strings.Builder
	line := func(indent int, key string, value any) {
		fmt.Fprintf(&b, "%s%s: %v\n", strings.Repeat(" ", indent), key, value)
	}
	text := func(indent int, key, value string) {
		if value != "" {
			line(indent, key, fmt.Sprintf("%q", strings.ToValidUTF8(value, "?")))
		}
	}
	b.WriteString("operator:\n  source: evdev\n  evdev:\n    device:\n")
	d := cfg.Device
	for _, f := range [][2]string{
		{"bus", d.Bus}, {"vendor", d.Vendor}, {"product", d.Product},
		{"name", d.Name}, {"uniq", d.Uniq}, {"phys", d.Phys},
	} {
		text(6, f[0], f[1])
	}
	line(4, "grab", cfg.Grab)
	defaults := evdev.DefaultConfig()
	for _, r := range panel.Roles() {
		if key := *cfg.Button(r); key != "" || *defaults.Button(r) != "" {
			line(4, r.String(), fmt.Sprintf("%q", key))
		}
	}
	if a := cfg.Axis; a.Code != "" {
		b.WriteString("    axis:\n")
		text(6, "code", a.Code)
		text(6, "rest", a.Rest)
		line(6, "inverted", a.Inverted)
	}
	return b.String()
}
