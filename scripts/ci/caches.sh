# shellcheck shell=bash
# What .ci/run keeps in the user's cache folder from one run to the next, each part in a folder of its own: sourced, it
# sets the variables by which the tools find them. Nothing of it is needed, and all may be deleted at any time: a tool
# that finds a file damaged makes it anew, and a folder that cannot be written is replaced by one in build/.
#   ccache      what compilers gave for the same input, of all presets, up to 3 GB (ccache bounds it)
#   pipelines-* what lavapipe compiled, for one version of Mesa and LLVM and one CPU, up to 1 GB (Mesa bounds it)
#   npm         packages as the registry gave them, checked by their hashes; begins anew beyond 1.5 GB
#   passed      the last commit that passed all of its steps
#   times       the last table of steps
# SwiftShader keeps nothing: its pipeline caches have a header and no data.
ci_cache=${XDG_CACHE_HOME:-$HOME/.cache}/tern-ci
{ mkdir -p "$ci_cache" && [ -w "$ci_cache" ]; } 2>/dev/null || ci_cache=$PWD/build/ci-cache

ci_pipelines_key() {
    { dpkg-query -W -f '${Package} ${Version}\n' mesa-vulkan-drivers 'libllvm*' 2>/dev/null
        sed -n '/^\(model name\|flags\)/p' /proc/cpuinfo | sort -u; } | sha256sum | cut -c 1-16
}

# ci_caches: after the tools are installed.
ci_caches() {
    local pipelines folder
    pipelines=pipelines-$(ci_pipelines_key)
    for folder in "$ci_cache"/pipelines-*; do # of other versions
        [ "${folder##*/}" = "$pipelines" ] || rm -rf "$folder"
    done
    [ "$(du -sm "$ci_cache/npm" 2>/dev/null | cut -f 1)" -lt 1500 ] 2>/dev/null || rm -rf "$ci_cache/npm"
    ci_warmth=
    for folder in ccache "$pipelines" npm; do
        if [ -d "$ci_cache/$folder" ]; then
            ci_warmth+=" ${folder%-*} warm ($(du -sm "$ci_cache/$folder" | cut -f 1) MB),"
        else
            ci_warmth+=" ${folder%-*} cold,"
        fi
        mkdir -p "$ci_cache/$folder"
    done
    ci_warmth=${ci_warmth%,}
    export MESA_SHADER_CACHE_DIR=$ci_cache/$pipelines MESA_SHADER_CACHE_MAX_SIZE=1G
    export npm_config_cache=$ci_cache/npm npm_config_prefer_offline=true
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
    export CCACHE_DIR=$ci_cache/ccache CCACHE_MAXSIZE=3G CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
    ccache --zero-stats >/dev/null
}
