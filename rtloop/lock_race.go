//go:build race

package rtloop

import "golang.org/x/sys/unix"

// lockFlags locks pages only as they are touched: the race detector maps
// terabytes of shadow memory that cannot be brought in.
const lockFlags = unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT
