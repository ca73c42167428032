# walk PATH FOLLOW: goes to the directory that holds PATH, as the kernel would, one part after the other, and keeps the
# last part in $name (`.` for the directory itself). With FOLLOW a link at the end is followed too. Parents that are not
# there yet are left in $gone. What is wrong, if anything, is in $problem: missing, notdir, denied, loop, nodir.
walk() {
  rest=$1 name=. gone= far= hops=0 problem= link=
  case $rest in
    /*) cd / ;;
    *) cd -P -- "$STEAD_DIR" 2>/dev/null || { problem=nodir; return; } ;;
  esac
  while :; do
    while :; do case $rest in /*) rest=${rest#/} ;; *) break ;; esac; done
    [ -n "$rest" ] || break
    part=${rest%%/*}
    case $rest in */*) rest=/${rest#*/} ;; *) rest= ;; esac
    [ "$part" = . ] && continue
    enter "$name"
    [ -z "$problem" ] || return
    name=$part link=
    if [ -n "$gone" ]; then
      [ "$part" != .. ] || { back_from_nowhere; return; }
    elif [ "$part" = .. ]; then cd -P ..; name=.
    elif [ -L "./$part" ]; then follow_link "$2"
    fi
    [ -z "$problem" ] || return
  done
}

enter() {
  if [ -n "$gone" ]; then gone=$gone/$1
  elif [ "$1" = . ]; then :
  elif [ -d "./$1" ]; then cd -P -- "./$1" 2>/dev/null || problem=denied
  elif [ -e "./$1" ]; then problem=notdir
  elif [ ! -x . ]; then problem=denied
  else gone=./$1
  fi
}

follow_link() {
  [ -n "$rest" ] || [ "$1" = 1 ] || { link=1; return; }
  hops=$((hops + 1))
  [ "$hops" -le 40 ] || { problem=loop; return; }
  # The x keeps newlines at the end of a name.
  to=$(readlink "./$name" && printf x) || { problem=denied; return; }
  to=${to%?x}
  rest=$to$rest name=.
  case $to in /*) cd / ;; esac
}

# back_from_nowhere: what is missing has no parent to go back to, but where the path points is told by its text.
back_from_nowhere() {
  problem=missing far=${PWD%/}${gone#.}
  far=${far%/*}
  while [ -n "$rest" ]; do
    rest=${rest#/} part=${rest%%/*}
    case $rest in */*) rest=/${rest#*/} ;; *) rest= ;; esac
    case $part in '' | .) ;; ..) far=${far%/*} ;; *) far=$far/$part ;; esac
  done
  far=${far:-/}
}

# place: the physical path that walk has led to.
place() {
  base=${PWD%/}${gone#.}
  if [ -n "$far" ]; then place=$far; elif [ "$name" = . ]; then place=${base:-/}; else place=$base/$name; fi
}

# inside: says whether walk has stayed below the root.
inside() {
  place
  [ "$STEAD_ROOT" = / ] && return 0
  case $place in "$STEAD_ROOT" | "$STEAD_ROOT"/*) return 0 ;; esac
  return 1
}

# arrive PATH FOLLOW: walks, and answers at once if that cannot be right.
arrive() {
  walk "$1" "$2"
  [ "$problem" != nodir ] || answer nodir "$STEAD_DIR"
  inside || answer outside "$place"
  [ -z "$problem" ] || answer "$problem" "$place"
}

# kind: what is at the end of the walk: file, dir, other, missing or denied.
kind() {
  if [ -n "$gone" ]; then kind=missing
  elif [ -d "./$name" ]; then kind=dir
  elif [ -f "./$name" ]; then kind=file
  elif [ -e "./$name" ] || [ -L "./$name" ]; then kind=other
  elif [ ! -x . ]; then kind=denied
  else kind=missing
  fi
}

# pin: opens the file that walk has led to, so that all that follows is about this one, whatever takes its name. $file is
# how to reach it.
pin() {
  exec 3< "./$name"
  file=/proc/self/fd/3
  [ -r "$file" ] || file=./$name
}

# facts NAME: size, inode and time of change, which are the version; then seconds, type, mode bits, owner.
facts() { TZ=UTC0 LC_ALL=C stat -L -c '%s|%d:%i|%y|%Y|%f|%a|%u:%g' -- "$1" 2>/dev/null; }
