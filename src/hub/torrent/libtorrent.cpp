/* Torrents by libtorrent-rasterbar: the module tern-torrent.so. The only C++ of Tern; linked with nothing of it. */
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <libtorrent/add_torrent_params.hpp>
#include <libtorrent/alert_types.hpp>
#include <libtorrent/bdecode.hpp>
#include <libtorrent/create_torrent.hpp>
#include <libtorrent/magnet_uri.hpp>
#include <libtorrent/peer_info.hpp>
#include <libtorrent/session.hpp>
#include <libtorrent/session_params.hpp>
#include <libtorrent/settings_pack.hpp>
#include <libtorrent/torrent_handle.hpp>
#include <libtorrent/torrent_info.hpp>
#include <libtorrent/torrent_status.hpp>

#include "hub/torrent/engine.h"

namespace
{

constexpr int max_metainfo = 64 << 20, stop_seconds = 2, turn_ms = 100;

/* A failure on its way out of the module, in which no exception leaves a function of the table. */
struct failure : std::runtime_error {
    tern_status code;
    failure(tern_status status, std::string const &words) : std::runtime_error(words), code(status)
    {
    }
};

tern_status fail(tern_error *err, tern_status code, char const *words)
{
    if (err) {
        err->code = code;
        std::snprintf(err->message, sizeof err->message, "%s", words);
    }
    return code;
}

/* Runs a function and makes a status of what it throws. A function of the caller's has filled in *err itself. */
struct passed_on {
    tern_status code;
};

template <typename Body> tern_status guarded(tern_error *err, Body body)
{
    try {
        body();
        return TERN_OK;
    } catch (passed_on const &p) {
        return p.code;
    } catch (failure const &f) {
        return fail(err, f.code, f.what());
    } catch (std::bad_alloc const &) {
        return fail(err, TERN_OUT_OF_MEMORY, "torrent: out of memory");
    } catch (std::exception const &e) {
        return fail(err, TERN_IO, e.what());
    }
}

void need(tern_status status)
{
    if (status != TERN_OK) throw passed_on{status};
}

std::string hex(char const *bytes, std::size_t n)
{
    static char const digits[] = "0123456789abcdef";
    std::string out;
    for (std::size_t i = 0; i < n; i++) {
        auto const byte = static_cast<unsigned char>(bytes[i]);
        out += digits[byte >> 4];
        out += digits[byte & 15];
    }
    return out;
}

void write_hashes(lt::info_hash_t const &hashes, char v1[41], char v2[65])
{
    auto const one = hashes.has_v1() ? hex(hashes.v1.data(), 20) : "";
    auto const two = hashes.has_v2() ? hex(hashes.v2.data(), 32) : "";
    std::memcpy(v1, one.c_str(), one.size() + 1);
    std::memcpy(v2, two.c_str(), two.size() + 1);
}

/* ---- what a torrent says of itself */

struct raw_file {
    std::string path;
    bool filler, link;
};

bool has_letter(lt::bdecode_node const &file, char letter)
{
    return file.dict_find_string_value("attr").find(letter) != lt::string_view::npos;
}

std::string join(lt::bdecode_node const &parts)
{
    std::string path;
    for (int i = 0; i < parts.list_size(); i++) path += (i ? "/" : "") + std::string(parts.list_string_value_at(i));
    return path;
}

/* As libtorrent reads it: a name in UTF-8 comes before another one. */
lt::bdecode_node find_utf8(lt::bdecode_node const &dict, std::string const &key)
{
    auto const better = dict.dict_find(key + ".utf-8");
    return better ? better : dict.dict_find(key);
}

void walk_tree(lt::bdecode_node const &tree, std::string const &below, std::vector<raw_file> &out)
{
    for (int i = 0; i < tree.dict_size(); i++) {
        auto const entry = tree.dict_at(i);
        if (entry.second.type() != lt::bdecode_node::dict_t) continue;
        auto const path = below + (below.empty() ? "" : "/") + std::string(entry.first);
        auto const leaf = entry.second.dict_find_dict("");
        if (leaf) out.push_back({path, has_letter(leaf, 'p'), has_letter(leaf, 'l')});
        else walk_tree(entry.second, path, out);
    }
}

/* The files in the words of the torrent's author, none of which libtorrent has touched. */
std::vector<raw_file> raw_files(lt::bdecode_node const &info)
{
    std::vector<raw_file> out;
    auto const files = info.dict_find_list("files");
    auto const tree = info.dict_find_dict("file tree");
    for (int i = 0; files && i < files.list_size(); i++) {
        auto const file = files.list_at(i);
        if (file.type() != lt::bdecode_node::dict_t) continue;
        auto const parts = find_utf8(file, "path");
        out.push_back({parts.type() == lt::bdecode_node::list_t ? join(parts) : "", has_letter(file, 'p'),
                       has_letter(file, 'l')});
    }
    if (!files && tree) walk_tree(tree, "", out);
    if (!files && !tree) out.push_back({find_utf8(info, "name").string_value().to_string(), false, false});
    return out;
}

/* A torrent with all that tern_torrent_info points to. */
class described
{
  public:
    explicit described(std::shared_ptr<lt::torrent_info const> torrent) : ti(std::move(torrent))
    {
        auto const section = ti->info_section();
        lt::error_code ec;
        auto const info_dict = lt::bdecode(section, ec);
        if (ec) throw failure(TERN_MALFORMED, "its description: " + ec.message());
        auto const raw_name = find_utf8(info_dict, "name");
        name = raw_name.type() == lt::bdecode_node::string_t ? raw_name.string_value().to_string() : "";
        if (name != ti->name()) note_alter(name);
        list(raw_files(info_dict));
        metainfo = "d4:info" + std::string(section.data(), static_cast<std::size_t>(section.size())) + "e";
    }

    tern_torrent_info info() const
    {
        tern_torrent_info out = {};
        out.name = name.c_str();
        out.alter = altered ? alter.c_str() : nullptr;
        write_hashes(ti->info_hashes(), out.v1, out.v2);
        out.piece_bytes = static_cast<std::uint32_t>(ti->piece_length());
        out.single = ti->num_files() == 1 && ti->files().file_path(lt::file_index_t(0)) == ti->name();
        out.files = files.data();
        out.n_files = files.size();
        out.metainfo = metainfo.data();
        out.metainfo_bytes = metainfo.size();
        return out;
    }

    /* Where file i of the info is in libtorrent's list. */
    lt::file_index_t index(std::size_t i) const
    {
        return indices.at(i);
    }

    std::shared_ptr<lt::torrent_info const> ti;
    std::string metainfo; /* a .torrent file of this description alone, unless somebody has a better one */

  private:
    void list(std::vector<raw_file> const &raw)
    {
        auto const &fs = ti->files();
        std::size_t at = 0;
        for (auto const i : fs.file_range()) {
            if (fs.pad_file_at(i)) continue;
            while (at < raw.size() && raw[at].filler) at++;
            auto const path = fs.file_path(i);
            auto const found = at < raw.size() ? raw[at].path : "";
            auto const link = at < raw.size() && raw[at].link;
            auto const inside = fs.num_files() > 1 || path != name ? name + "/" + found : found;
            if (path != inside || found.find('\0') != std::string::npos) note_alter(found);
            paths.push_back(found);
            files.push_back({nullptr, static_cast<std::uint64_t>(fs.file_size(i)),
                             link || bool(fs.file_flags(i) & lt::file_storage::flag_symlink)});
            indices.push_back(i);
            at++;
        }
        for (std::size_t i = 0; i < files.size(); i++) files[i].path = paths[i].c_str();
    }

    void note_alter(std::string const &path)
    {
        if (!altered) alter = path;
        altered = true;
    }

    std::string name, alter;
    bool altered = false;
    std::vector<std::string> paths;
    std::vector<tern_torrent_file> files;
    std::vector<lt::file_index_t> indices;
};

lt::load_torrent_limits limits()
{
    lt::load_torrent_limits l;
    l.max_buffer_size = max_metainfo;
    return l;
}

/* From a description alone, without the other parts of a .torrent file. */
std::shared_ptr<lt::torrent_info> load_description(lt::span<char const> bytes)
{
    lt::error_code ec;
    auto const root = lt::bdecode(bytes, ec);
    auto const info = ec ? lt::bdecode_node() : root.dict_find_dict("info");
    if (!info) throw failure(TERN_MALFORMED, "no torrent: " + (ec ? ec.message() : "it describes nothing"));
    auto ti = std::make_shared<lt::torrent_info>(lt::info_hash_t());
    if (!ti->parse_info_section(info, ec, limits().max_pieces))
        throw failure(TERN_MALFORMED, "no torrent: " + ec.message());
    return ti;
}

std::shared_ptr<lt::torrent_info> load(void const *bytes, std::size_t n)
{
    lt::span<char const> const span(static_cast<char const *>(bytes), static_cast<std::ptrdiff_t>(n));
    try {
        return std::make_shared<lt::torrent_info>(span, limits(), lt::from_span);
    } catch (lt::system_error const &e) {
        if (e.code() == lt::errors::torrent_missing_piece_layer) return load_description(span);
        throw failure(TERN_MALFORMED, "no torrent: " + e.code().message());
    }
}

/* ---- making one */

void hash_pieces(lt::create_torrent &torrent, tern_torrent_recipe const &recipe)
{
    lt::error_code ec;
    float const n = static_cast<float>(torrent.num_pieces());
    lt::set_piece_hashes(
        torrent, recipe.parent,
        [&](lt::piece_index_t i) {
            if (recipe.progress && !recipe.progress(recipe.context, static_cast<float>(static_cast<int>(i) + 1) / n))
                throw failure(TERN_CANCELLED, "interrupted");
        },
        ec);
    if (ec) throw failure(TERN_IO, std::string(recipe.parent) + "/" + recipe.name + ": " + ec.message());
}

std::vector<char> write_torrent(tern_torrent_recipe const &recipe)
{
    lt::file_storage fs;
    for (std::size_t i = 0; i < recipe.n_files; i++)
        fs.add_file(std::string(recipe.name) + "/" + recipe.files[i], static_cast<std::int64_t>(recipe.bytes[i]));
    lt::create_torrent torrent(fs, static_cast<int>(recipe.piece_bytes), lt::create_torrent::no_attributes);
    torrent.set_creation_date(0); /* the same files, the same bytes */
    for (std::size_t i = 0; i < recipe.n_web_seeds; i++) torrent.add_url_seed(recipe.web_seeds[i]);
    for (std::size_t i = 0; i < recipe.n_trackers; i++) torrent.add_tracker(recipe.trackers[i], static_cast<int>(i));
    hash_pieces(torrent, recipe);
    return torrent.generate_buf();
}

tern_status make(tern_torrent_recipe const *recipe,
                 tern_status (*take)(void *, tern_torrent_info const *, char const *, tern_error *), void *context,
                 tern_error *err)
{
    return guarded(err, [&] {
        auto const bytes = write_torrent(*recipe);
        described d(load(bytes.data(), bytes.size()));
        d.metainfo.assign(bytes.begin(), bytes.end());
        auto const info = d.info();
        need(take(context, &info, lt::make_magnet_uri(*d.ti).c_str(), err));
    });
}

/* ---- fetching */

lt::add_torrent_params read_magnet(char const *magnet)
{
    lt::error_code ec;
    auto params = lt::parse_magnet_uri(magnet, ec);
    if (ec) throw failure(TERN_INVALID_ARGUMENT, std::string("the magnet link: ") + ec.message());
    return params;
}

tern_status identify(char const *magnet, char v1[41], char v2[65], tern_error *err)
{
    return guarded(err, [&] { write_hashes(read_magnet(magnet).info_hashes, v1, v2); });
}

/* "1.2.3.4:5" or "[::1]:5". */
lt::tcp::endpoint endpoint(std::string const &text, char const *what)
{
    lt::error_code ec;
    auto const colon = text.rfind(':');
    auto host = text.substr(0, colon);
    if (host.size() > 1 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    auto const address = lt::make_address(host, ec);
    auto const port = colon == std::string::npos ? "" : text.substr(colon + 1);
    auto const wrong = port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != std::string::npos;
    if (ec || wrong || std::stoi(port) > 65535)
        throw failure(TERN_INVALID_ARGUMENT,
                      std::string(what) + " " + text + ": an address and a port, as 192.0.2.1:6881, expected");
    return {address, static_cast<std::uint16_t>(std::stoi(port))};
}

lt::settings_pack settings(tern_torrent_order const &o)
{
    using sp = lt::settings_pack;
    sp s;
    s.set_int(sp::alert_mask, lt::alert_category::error | lt::alert_category::status | lt::alert_category::storage |
                                  lt::alert_category::peer);
    s.set_bool(sp::enable_dht, o.discovery);
    s.set_bool(sp::enable_lsd, o.discovery);
    s.set_bool(sp::enable_upnp, o.discovery && o.seed); /* who seeds wants to be found */
    s.set_bool(sp::enable_natpmp, o.discovery && o.seed);
    s.set_int(sp::max_metadata_size, max_metainfo);
    s.set_int(sp::min_reconnect_time, 1); /* who has given a link's description is called again; three times at most */
    s.set_bool(sp::close_redundant_connections, false); /* who has all is wanted behind the first file too */
    s.set_int(sp::stop_tracker_timeout, stop_seconds);
    s.set_int(sp::upload_rate_limit, static_cast<int>(o.upload_limit));
    s.set_str(sp::user_agent, "Tern/" TERN_VERSION " libtorrent/" LIBTORRENT_VERSION);
    if (!o.listen) return s;
    auto const where = endpoint(o.listen, "--listen");
    s.set_str(sp::listen_interfaces, o.listen);
    s.set_int(sp::max_retry_port_bind, 0);
    if (!where.address().is_unspecified()) s.set_str(sp::outgoing_interfaces, where.address().to_string());
    return s;
}

class fetching
{
  public:
    fetching(tern_torrent_order const &order, tern_error *error) : o(order), err(error)
    {
    }

    void run()
    {
        auto params = o.magnet ? read_magnet(o.magnet) : lt::add_torrent_params();
        std::shared_ptr<lt::torrent_info> ti;
        if (o.metainfo || !o.magnet) ti = load(o.metainfo, o.metainfo_bytes);
        for (std::size_t i = 0; i < o.n_peers; i++) params.peers.push_back(endpoint(o.peers[i], "--peer"));
        if (!ti) ti = ask_description(params);
        params.ti = ti;
        params.info_hashes = ti->info_hashes();
        add(params);
        wait([&] { return is_checked() && (o.here || is_there(first)); });
        if (o.here && !status.is_seeding)
            throw failure(TERN_MALFORMED, "the files beside it are not those that it describes");
        flush();
        need(o.on_first(o.context, err));
        if (!o.here) want(lt::default_priority);
        wait([&] { return status.is_seeding; });
        flush();
        need(o.on_whole(o.context, err));
        if (o.seed) give();
    }

  private:
    /* A link says only which torrent it is: its description comes from peers. */
    std::shared_ptr<lt::torrent_info> ask_description(lt::add_torrent_params &params)
    {
        auto asked = params;
        asked.save_path = "/nonexistent"; /* nothing is written */
        asked.flags |= lt::torrent_flags::default_dont_download;
        start(asked);
        wait([&] { return status.has_metadata; });
        auto const known = handle.torrent_file();
        if (!known) throw failure(TERN_IO, "the torrent's description was lost");
        std::vector<lt::peer_info> peers;
        handle.get_peer_info(peers);
        for (auto const &p : peers)
            if (p.flags & lt::peer_info::local_connection) params.peers.push_back(p.ip);
        session->remove_torrent(handle);
        removed = false;
        while (!removed) take_alerts();
        return std::make_shared<lt::torrent_info>(*known);
    }

    void add(lt::add_torrent_params &params)
    {
        described d(params.ti);
        if (o.metainfo) d.metainfo.assign(static_cast<char const *>(o.metainfo), o.metainfo_bytes);
        std::vector<char> folder(8192);
        std::size_t number = 0;
        auto const info = d.info();
        need(o.accept(o.context, &info, folder.data(), folder.size(), &number, err));
        first = d.index(number);
        params.save_path = folder.data();
        params.file_priorities.assign(static_cast<std::size_t>(params.ti->num_files()), lt::dont_download);
        if (!o.here) params.file_priorities[static_cast<std::size_t>(static_cast<int>(first))] = lt::top_priority;
        start(params);
    }

    void start(lt::add_torrent_params params)
    {
        params.flags &= ~(lt::torrent_flags::auto_managed | lt::torrent_flags::paused);
        if (!session) session.reset(new lt::session(lt::session_params(settings(o))));
        handle = session->add_torrent(params);
        status = handle.status();
    }

    bool is_checked() const
    {
        using state = lt::torrent_status;
        return status.state != state::checking_files && status.state != state::checking_resume_data;
    }

    bool is_there(lt::file_index_t file) const
    {
        auto const progress = handle.file_progress(lt::torrent_handle::piece_granularity);
        auto const i = static_cast<std::size_t>(static_cast<int>(file));
        return i < progress.size() && progress[i] == handle.torrent_file()->files().file_size(file);
    }

    void want(lt::download_priority_t priority)
    {
        auto const n = static_cast<std::size_t>(handle.torrent_file()->num_files());
        handle.prioritize_files(std::vector<lt::download_priority_t>(n, priority));
    }

    template <typename Done> void wait(Done done)
    {
        for (;;) {
            take_alerts();
            status = handle.status();
            need(tell());
            if (done()) return;
        }
    }

    void flush()
    {
        flushed = false;
        handle.flush_cache();
        while (!flushed) take_alerts();
    }

    void give()
    {
        lt::settings_pack s;
        s.set_bool(lt::settings_pack::close_redundant_connections, true);
        session->apply_settings(s);
        for (;;) {
            take_alerts();
            status = handle.status();
            if (tell() != TERN_OK) return;
        }
    }

    tern_status tell()
    {
        tern_torrent_state s = {};
        s.checking = status.state == lt::torrent_status::checking_files;
        s.done = status.progress;
        s.peers = static_cast<std::uint32_t>(status.num_peers);
        s.fetched = static_cast<std::uint64_t>(status.total_payload_download);
        s.sent = static_cast<std::uint64_t>(status.total_payload_upload);
        s.rate = static_cast<std::uint64_t>(status.download_payload_rate);
        s.sent_rate = static_cast<std::uint64_t>(status.upload_payload_rate);
        return o.progress(o.context, &s, err);
    }

    /* What happened, at most turn_ms after it. */
    void take_alerts()
    {
        std::vector<lt::alert *> alerts;
        session->wait_for_alert(std::chrono::milliseconds(turn_ms));
        session->pop_alerts(&alerts);
        for (auto const *a : alerts) take(a);
    }

    void take(lt::alert const *a)
    {
        if (auto const *t = lt::alert_cast<lt::torrent_error_alert>(a)) throw failure(TERN_IO, t->error.message());
        if (auto const *f = lt::alert_cast<lt::file_error_alert>(a))
            throw failure(TERN_IO, std::string(f->filename()) + ": " + f->error.message());
        if (auto const *l = lt::alert_cast<lt::listen_failed_alert>(a))
            if (o.listen)
                throw failure(TERN_INVALID_ARGUMENT, std::string("--listen ") + o.listen + ": " + l->error.message());
        if (lt::alert_cast<lt::cache_flushed_alert>(a)) flushed = true;
        if (lt::alert_cast<lt::torrent_removed_alert>(a)) removed = true;
        if (lt::alert_cast<lt::hash_failed_alert>(a)) note("wrong bytes came: such pieces are fetched again");
        if (auto const *p = lt::alert_cast<lt::peer_ban_alert>(a))
            note(print(p->endpoint) + " sent wrong bytes and is not asked any more");
        if (auto const *u = lt::alert_cast<lt::url_seed_alert>(a))
            note(std::string(u->server_url()) + ": " + (u->error ? u->error.message() : u->error_message()));
        if (auto const *k = lt::alert_cast<lt::tracker_error_alert>(a))
            note(std::string(k->tracker_url()) + ": " + (k->error ? k->error.message() : k->error_message()));
    }

    static std::string print(lt::tcp::endpoint const &e)
    {
        return e.address().to_string() + ":" + std::to_string(e.port());
    }

    /* Once of each. */
    void note(std::string const &words)
    {
        if (said.insert(words).second && o.note) o.note(o.context, words.c_str());
    }

    tern_torrent_order const &o;
    tern_error *err;
    std::unique_ptr<lt::session> session; /* once something may be asked of others */
    lt::torrent_handle handle;
    lt::torrent_status status;
    lt::file_index_t first{0};
    std::set<std::string> said;
    bool flushed = false, removed = false;
};

tern_status fetch(tern_torrent_order const *order, tern_error *err)
{
    return guarded(err, [&] { fetching(*order, err).run(); });
}

tern_torrent_engine const engine = {make, identify, fetch};

} // namespace

extern "C" __attribute__((visibility("default"))) tern_torrent_engine const *tern_torrent_module_open(void)
{
    return &engine;
}
