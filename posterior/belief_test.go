package posterior

import "testing"

func TestZ(t *testing.T) {}
