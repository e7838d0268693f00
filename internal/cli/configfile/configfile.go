package configfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"text/tabwriter"

	"optibfm/configs"
	"optibfm/internal/plaintext"
	"optibfm/internal/safefile"
	"optibfm/internal/setup"
	"optibfm/internal/shell"
	"optibfm/rtloop"
)

// List prints the names of the ready-made configurations, each with a sentence.
func List(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, name := range configs.Names() {
		summary, err := configs.Summary(name)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(table, "%s\t%s\n", name, summary); err != nil {
			return err
		}
	}
	return table.Flush()
}

// Init writes a ready-made configuration to a new file, or to w where path is empty.
func Init(w io.Writer, name, path string) error {
	text, err := configs.Text(name)
	if err != nil {
		return err
	}
	if path == "" {
		_, err := w.Write(text)
		return err
	}
	err = safefile.WriteNew(path, 0o644, text)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("config init: %s: the file exists; choose another name, or move it away", path)
	}
	if err != nil {
		return fmt.Errorf("config init: %w", err)
	}
	start := shell.ThisProgram().Command("run", "--config", shell.Operand(path))
	first := ""
	if lines := toChange(text); lines != "" {
		first = fmt.Sprintf("first edit the lines marked CHANGE (%s), then ", lines)
	}
	_, err = fmt.Fprintf(w, "%s: written; %sstart it with: %s\n", path, first, start)
	return err
}

// toChange lists the numbers of the lines of a configuration that its reader must change, "" for
// none.
func toChange(text []byte) string {
	var numbers []string
	for i, line := range strings.Split(string(text), "\n") {
		if strings.Contains(line, "CHANGE") {
			numbers = append(numbers, strconv.Itoa(i+1))
		}
	}
	return strings.Join(numbers, ", ")
}

// Validate checks all files with the overrides in set, so that one call reports all mistakes. A run
// may refuse a valid file: Validate warns of a missing deadman, automatic arming and long calls.
func Validate(w io.Writer, paths, set []string) error {
	var wrong []error
	for _, path := range paths {
		file, err := configs.Load(path, set...)
		var warnings []error
		if err == nil {
			warnings, err = compare(file)
		}
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		verdict := path + ": valid\n"
		for _, warning := range warnings {
			verdict += plaintext.Wrap("warning: " + warning.Error())
		}
		if _, err := io.WriteString(w, verdict); err != nil {
			return err
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("config validate:\n%w", errors.Join(wrong...))
}

// compare compares a configuration with its model and robot.
func compare(file configs.File) (warnings []error, err error) {
	warning, wrong := setup.CheckChannelsOfFile(file)
	if warning != "" {
		warnings = append(warnings, errors.New(warning))
	}
	impossible, cannotArm := setup.CheckStart(file)
	if cannotArm != nil {
		warnings = append(warnings, fmt.Errorf("this robot cannot be armed: %w", cannotArm))
	}
	bounds, shares := setup.BoundsOfFile(file)
	late, fatal := setup.CompareBounds(bounds, shares, file)
	refusals, _ := setup.MissingGuards(file)
	for _, refused := range append(refusals, late...) {
		if file.Loop.Posture == rtloop.Strict {
			refused = fmt.Errorf("loop.posture strict refuses to run: %w", refused)
		}
		warnings = append(warnings, refused)
	}
	return warnings, errors.Join(wrong, impossible, fatal)
}

// Show prints a configuration in full, with defaults and the overrides in set. Secrets of addresses
// are hidden.
func Show(w io.Writer, name string, set []string) error {
	cfg, err := configs.Load(name, set...)
	if err != nil {
		return err
	}
	text, err := cfg.Redacted().YAML()
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}
