package newrobot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"optibfm/examples/gymnasium"
	"optibfm/examples/puck"
	"optibfm/internal/shell"
)

// environment is the description of an environment by its server.
type environment struct {
	Period float64 `json:"period"` // s
}

// WriteGymnasium writes the folder name, which must not exist, for an environment of Gymnasium: an
// id, or MODULE:CLASS. It starts the environment's server once, with python3 and the packages that
// it finds, to check it. repository is as in [WriteGo].
func WriteGymnasium(ctx context.Context, w io.Writer, name, id, repository string) error {
	root, _, err := findRepository(repository)
	if err != nil {
		return err
	}
	script := filepath.Join(root, filepath.FromSlash(gymnasium.Script))
	env, err := describe(ctx, script, id)
	if err != nil {
		return fmt.Errorf("new-robot: --gymnasium %s: %w", id, err)
	}
	if here, err := os.Getwd(); err == nil && here == root {
		script = gymnasium.Script
	}
	quoted, err := json.Marshal(id) // also YAML
	if err != nil {
		return fmt.Errorf("new-robot: %w", err)
	}
	if err := writeFolder(name, func() error {
		err := copyAll(name, gymnasium.Files, strings.NewReplacer(
			gymnasium.Folder, name, gymnasium.Name, name, gymnasium.Script+", "+gymnasium.EnvID, script+", "+string(quoted),
			gymnasium.EnvID, id, gymnasium.Period, "period_ms: "+strconv.FormatFloat(1000*env.Period, 'g', 9, 64),
			"../puck/README.md", "examples/puck/README.md"))
		for _, file := range []string{"record.sh", "train.sh"} {
			text, readErr := puck.Files.ReadFile(file)
			names := strings.NewReplacer(puck.Folder, name, "npz\n", "npz --states "+name+"/states.npz\n",
				"mode=lockstep ", "mode=lockstep --set robot.bridge.timeout_ms=2000 --rhythms 0.5 ")
			err = errors.Join(err, readErr, write(name, file, text, names))
		}
		return err
	}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s: written; read %[1]s/README.md: record, train, then start it with: %s\n",
		name, shell.ThisProgram().Command("run", "--config", name+"/robot.yaml"))
	return err
}

// describe asks the server of an environment for its description.
func describe(ctx context.Context, script, id string) (environment, error) {
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, "python3", script, "--describe", "--", id)
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return environment{}, fmt.Errorf("python3: %w: %s", err, lines[len(lines)-1])
	}
	var env environment
	if err := json.Unmarshal(out.Bytes(), &env); err != nil || !(env.Period > 0) {
		return environment{}, fmt.Errorf("%s: bad answer (%q): %v", script, out.String(), err)
	}
	return env, nil
}
