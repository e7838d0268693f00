package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/configs"
)

func runConfig(args ...string) (string, error) {
	cmd := newConfigCommand()
	var out bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.Execute()
	return out.String(), err
}

func TestConfigInitWritesAFileThatValidates(t *testing.T) {
	for _, name := range configs.Names() {
		path := filepath.Join(t.TempDir(), "mine.yaml")
		if _, err := runConfig("init", name, "-o", path); err != nil {
			t.Fatal(err)
		}
		out, err := runConfig("validate", path)
		if err != nil || out != path+": valid\n" {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
}

func TestConfigInitNeverOverwritesAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := runConfig("init", "-o", path)
	if err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("error %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "precious" {
		t.Errorf("the file holds %q", text)
	}
}

func TestConfigInitOfAnUnknownNameOffersTheNearest(t *testing.T) {
	if _, err := runConfig("init", "rovre"); err == nil || !strings.Contains(err.Error(), "did you mean rover?") {
		t.Errorf("error %v", err)
	}
}

func TestConfigValidateShowsTheMistakesOfAllFilesWithCarets(t *testing.T) {
	var paths []string
	for _, text := range []string{"version: 1\nrnu: {}\n", "version: 1\n", "version: 1\nrun: {episodes: -1}\n"} {
		path := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	out, err := runConfig(append([]string{"validate"}, paths...)...)
	if err == nil || out != paths[1]+": valid\n" {
		t.Fatalf("%q, %v", out, err)
	}
	for _, want := range []string{
		paths[0] + ":2:1: unknown key rnu; did you mean run?\n    2 | rnu: {}\n      | ^^^",
		paths[2] + ":2:17: run.episodes is out of range (-1)",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error\n%v\nwant in it\n%s", err, want)
		}
	}
}

func TestConfigShowPrintsAllKeysWithOverrides(t *testing.T) {
	out, err := runConfig("show", "rover-fast", "--set", "controller.gate.kappa=0.25")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := configs.Parse("shown.yaml", []byte(out))
	if err != nil || cfg.Controller.Gate.Kappa != 0.25 || !cfg.Run.Lockstep {
		t.Errorf("%+v, %v", cfg, err)
	}
}

func TestConfigListNamesEveryConfigurationWithASentence(t *testing.T) {
	out, err := runConfig("list")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != len(configs.Names()) {
		t.Errorf("%d lines:\n%s", len(lines), out)
	}
	for i, name := range configs.Names() {
		if !strings.HasPrefix(lines[i], name+"  ") || !strings.HasSuffix(lines[i], ".") {
			t.Errorf("line %q, want %s and a sentence", lines[i], name)
		}
	}
}

func TestConfigSchemaIsJSON(t *testing.T) {
	out, err := runConfig("schema")
	if err != nil || !json.Valid([]byte(out)) {
		t.Errorf("%v: %.100s", err, out)
	}
}
