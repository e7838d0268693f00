package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"optibfm/internal/plaintext"
	"optibfm/internal/setup"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/panel"
)

// bindFlags are the flags of label bind.
type bindFlags struct {
	device  string
	roles   []string
	axis    bool
	timeout time.Duration
	out     string
}

func newLabelBindCommand() *cobra.Command {
	var f bindFlags
	cmd := &cobra.Command{
		Use:   "bind",
		Short: "Ask for each button to be pressed, and write the configuration that binds it",
		Long: `Listen to all input devices, ask for the button of each role to be pressed, and
print the part of a configuration that binds them. The first button says which
device it is. Buttons for can't tell and undo may be left out: wait until their
time is over.`,
		Example: `  optibfm label bind                         a pedal, clicker, remote, gamepad
  optibfm label bind --axis                  and a stick or slider for a stream of labels
  optibfm label bind --roles good,bad --out pedal.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return bindLabels(ctx, f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.device, "device", "", "listen only to devices with this in their name")
	fl.StringSliceVar(&f.roles, "roles", []string{"good", "bad", "cant_tell", "undo"}, "the buttons to bind")
	fl.BoolVar(&f.axis, "axis", false, "bind a stick, slider or analogue pedal too")
	fl.DurationVar(&f.timeout, "timeout", 20*time.Second, "the time for each press")
	fl.StringVarP(&f.out, "out", "o", "", "file to write, which must not exist (default: standard output)")
	return cmd
}

func bindLabels(ctx context.Context, f bindFlags, out, prompts io.Writer) error {
	roles, err := parseRoles(f.roles)
	if err != nil {
		return err
	}
	cfg, err := evdev.Bind(ctx, evdev.BindOptions{
		System: setup.InputDevices, Device: f.device, Roles: roles, Axis: f.axis, Timeout: f.timeout,
		Say: func(text string) { fmt.Fprintln(prompts, plaintext.Clean(text)) },
	})
	if err != nil {
		return fmt.Errorf("label bind: %w", err)
	}
	text := bindingYAML(cfg)
	if f.out == "" {
		_, err := io.WriteString(out, text)
		return err
	}
	return writeNew(f.out, text, prompts)
}

// writeNew writes a file that must not exist.
func writeNew(path, text string, told io.Writer) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("label bind: %s: the file exists already: choose another name, or move it away", path)
	}
	if err != nil {
		return fmt.Errorf("label bind: %w", err)
	}
	_, err = file.WriteString(text)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("label bind: %w", err)
	}
	fmt.Fprintf(told, "%s: written; put it into your configuration\n", path)
	return nil
}

// parseRoles reads the names of roles.
func parseRoles(names []string) (roles []panel.Role, err error) {
	known := make(map[string]panel.Role)
	for _, r := range panel.Roles() {
		known[r.String()] = r
	}
	for _, name := range names {
		r, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("label bind: --roles: unknown (%q): use good, bad, cant_tell, undo", name)
		}
		roles = append(roles, r)
	}
	return roles, nil
}

// bindingYAML is the part of a configuration that binds a device. What has its
// default is left out.
func bindingYAML(cfg evdev.Config) string {
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
	for _, f := range [][2]string{{"bus", d.Bus}, {"vendor", d.Vendor}, {"product", d.Product}, {"name", d.Name}, {"uniq", d.Uniq}, {"phys", d.Phys}} {
		text(6, f[0], f[1])
	}
	line(4, "grab", cfg.Grab)
	for _, f := range [][2]string{{"good", cfg.Good}, {"bad", cfg.Bad}} { // "" differs from their defaults
		line(4, f[0], fmt.Sprintf("%q", f[1]))
	}
	text(4, "cant_tell", cfg.CantTell)
	text(4, "undo", cfg.Undo)
	if a := cfg.Axis; a.Code != "" {
		b.WriteString("    axis:\n")
		text(6, "code", a.Code)
		text(6, "rest", a.Rest)
		line(6, "inverted", a.Inverted)
	}
	return b.String()
}
