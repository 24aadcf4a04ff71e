# For scripts to source: Debian packages without installing them.

# Gives apt lists and a cache of its own in a folder, so that nothing of the machine's is changed, and packages of an
# architecture beside the machine's own if one is named. Further sources may be put into FOLDER/sources.
#   own_apt FOLDER [ARCHITECTURE]
own_apt() {
    local folder=$1
    rm -rf "$folder"
    mkdir -p "$folder"/{sources,lists/partial,cache/archives/partial,packages}
    cp /etc/apt/sources.list.d/debian.sources "$folder/sources/own.sources"
    cat > "$folder/apt.conf" <<EOF
APT::Architectures { "$(dpkg --print-architecture)"; ${2:+"\"$2\"; "}};
APT::Sandbox::User "";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$folder/sources";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::lists "$folder/lists";
Dir::Cache "$folder/cache";
EOF
    export APT_CONFIG=$folder/apt.conf
}

# Downloads packages and unpacks them into a folder.
#   unpack FOLDER PACKAGE...
unpack() {
    local root=$1
    shift
    (
        cd "$(dirname "$APT_CONFIG")/packages"
        apt-get --quiet download "$@"
        for package in *.deb; do dpkg-deb -x "$package" "$root"; done
    )
}

# The package with a version in its name that another one depends on.
#   behind PACKAGE BEGINNING
behind() {
    apt-cache depends "$1" | sed -n "s/^ *Depends: \($2[0-9].*\)/\1/p"
}
